package policy

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// readAllows records what is shown again inside hidden directories.
func (r *resolver) readAllows() error {
	for _, it := range items("filesystem.allowRead", "", r.in.Config.Filesystem.AllowRead) {
		readings, err := r.readings(it, true)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			if rd.pattern == "" {
				r.allowRead(rd.name, it)
			} else if err := r.allowPattern(rd, it); err != nil {
				return err
			}
		}
	}
	return nil
}

// allowPattern shows what a pattern names now. A pattern that would need a
// search of the whole machine shows nothing.
func (r *resolver) allowPattern(rd reading, it item) error {
	l, err := r.land(rd.dir, true)
	if err != nil || l.info.Kind != Dir || !r.mayShow(l.links, false, it) {
		return nil //nolint:nilerr // nothing there to show
	}
	rd.dir = l.path
	if l.path == "/" && strings.Contains(rd.pattern, "**") {
		r.warn(it.rule, "has no effect: a pattern that begins in the root directory would need a search of the whole machine; start it with a directory")
		return nil
	}
	found, err := r.expandAllow(rd)
	if err != nil {
		return err
	}
	for _, p := range found {
		r.allowRead(p, it)
	}
	return nil
}

// allowRead shows one name again.
func (r *resolver) allowRead(name string, it item) {
	l, err := r.land(name, true)
	if err == nil && l.first != "" && !l.upward {
		r.unreadAllowed[l.path] = true
	}
	if err != nil || l.done() || fresh(l.path) {
		return
	}
	spelled, err := r.land(name, false)
	if err != nil || !r.mayShow(l.links, spelled.info.Kind == Symlink, it) {
		return
	}
	n := r.at(l)
	n.allowRead, n.allowRule = true, it.rule
	r.carved = append(r.carved, l.path)
}

// mayShow refuses entries that lead through a link which a command could have
// planted: whoever plants it chooses what is shown. Directories on the way may
// be links that no command of this run can change; a name that is a link itself
// must be one that no command of this user can ever have made.
func (r *resolver) mayShow(links []string, last bool, it item) bool {
	for _, link := range links {
		if r.trustedLink(link, r.roots) || !last && !r.inRoot(link) {
			continue
		}
		if r.deniesReads() {
			r.warn(it.rule, "has no effect: "+link+" is a symbolic link that a command could have planted; name its target instead")
		}
		return false
	}
	return true
}

func (r *resolver) deniesReads() bool {
	c := r.in.Config
	return len(c.Filesystem.DenyRead) > 0 || c.Credentials != nil
}

// readDenies records what denyRead hides.
func (r *resolver) readDenies() error {
	for _, it := range items("filesystem.denyRead", "add a path to filesystem.allowRead, or remove ENTRY from filesystem.denyRead", r.in.Config.Filesystem.DenyRead) {
		if err := r.denyRead(it, false); err != nil {
			return err
		}
	}
	return nil
}

// credentialDenies records files that no other list shows again.
func (r *resolver) credentialDenies() error {
	if r.in.Config.Credentials == nil {
		return nil
	}
	for i, f := range r.in.Config.Credentials.Files {
		if f.Mode != "deny" {
			continue
		}
		rule := Rule{Setting: fmt.Sprintf("credentials.files[%d]", i), Entry: f.Path, Cure: fmt.Sprintf("remove %q from credentials.files", f.Path)}
		it := item{rule: rule}
		it.Path = f.Path
		if err := r.denyRead(it, true); err != nil {
			return err
		}
	}
	return nil
}

// maskFiles lists the files whose content a later stage replaces.
func (r *resolver) maskFiles() {
	if r.in.Config.Credentials == nil {
		return
	}
	for _, f := range r.in.Config.Credentials.Files {
		start, rest, ok := r.anchor(f.Path)
		if f.Mode != "mask" || !ok {
			continue
		}
		if l, err := r.land(path.Clean(start+rest), true); err == nil && l.info.Kind == File {
			r.out.MaskFiles = append(r.out.MaskFiles, l.path)
		}
	}
}

// SSHDropIns is a directory that is hidden because its files look foreign-owned in a user namespace
// and make every ssh refuse to run.
const SSHDropIns = "/etc/ssh/ssh_config.d"

func (r *resolver) ownDenies() error {
	if r.in.HostIdentity {
		return nil
	}
	if l, err := r.land(SSHDropIns, true); err == nil && l.info.Kind == Dir {
		r.hide(l, builtIn(SSHDropIns), false)
	}
	return nil
}

// ownFiles keeps srt's own files readable.
func (r *resolver) ownFiles() error {
	for _, p := range r.in.Readable {
		if l, err := r.land(p, true); err == nil && !l.done() && !fresh(l.path) {
			r.at(l).own = true
		}
	}
	return nil
}

// denyRead hides what an entry names. A locked deny is not lifted by any list.
func (r *resolver) denyRead(it item, locked bool) error {
	readings, err := r.readings(it, false)
	if err != nil {
		return err
	}
	for _, rd := range readings {
		if rd.pattern == "" {
			err = r.denyName(rd.name, it.rule, locked)
		} else {
			err = r.denyPattern(rd, it.rule, locked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) denyPattern(rd reading, rule Rule, locked bool) error {
	found, err := r.expand(rd, rule, r.carved)
	if err != nil {
		return err
	}
	for _, m := range found {
		if m.closed {
			if err := r.standIn(m.path, rule); err != nil {
				return err
			}
			continue
		}
		if l, err := r.land(m.path, false); err == nil && !l.done() {
			r.hide(l, rule, locked)
		}
	}
	return nil
}

// denyName hides one name, wherever it leads.
func (r *resolver) denyName(name string, rule Rule, locked bool) error {
	clean := path.Clean(name)
	if fresh(clean) {
		r.warnFresh(rule)
		return nil
	}
	if clean == "/" {
		return r.denyRoot(rule, locked)
	}
	l, err := r.land(name, true)
	switch {
	case errors.Is(err, errLinkCycle):
		return nil // leads nowhere
	case err != nil:
		return err
	case l.closed != "":
		return r.standIn(l.closed, rule)
	case l.first != "":
		if !l.upward {
			r.forbid(l, rule, false, true)
			r.missing(l.path, rule, locked)
			r.pinReadLinks(l.links, rule)
		}
		return nil
	case l.fileInWay:
		return nil
	case l.path == "/" && len(l.links) == 0:
		return r.denyRoot(rule, locked)
	case l.path == "/":
		// A link to the root: hide the directory that holds the link.
		return r.standIn(parentOf(l.links[len(l.links)-1]), rule)
	}
	r.hide(l, rule, locked)
	r.pinReadLinks(l.links, rule)
	r.hiding = append(r.hiding, hiding{path: l.path, rule: rule})
	return nil
}

// hiding is a name that an entry hides.
type hiding struct {
	path string
	rule Rule
}

// warnShown names the entries that an allow for the very same place leaves without
// effect: people write both and expect the deny to win.
func (r *resolver) warnShown() {
	for _, h := range r.hiding {
		if n := r.nodes[h.path]; n != nil && !n.own && r.stateOf(h.path).view == Host {
			r.warnUndone(h.rule, r.stateOf(h.path).rule)
		}
	}
}

func (r *resolver) warnUndone(deny, allow Rule) {
	r.warn(deny, "has no effect: "+allow.String()+" shows the same place again")
}

// standIn hides the deepest directory that can be looked at when the entry
// itself cannot: a command may have closed the way, and could open it again.
func (r *resolver) standIn(dir string, rule Rule) error {
	l, err := r.land(dir, true)
	if err != nil || l.done() || l.path == "/" {
		return &Error{Code: "unlistable_root", Setting: rule.Setting, Entry: rule.Entry, Reason: "the way to it cannot be inspected, and only the root directory is left to hide", Err: err}
	}
	r.hide(l, rule, true)
	return nil
}

// denyRoot hides everything in the root directory but what a process needs to
// exist. An allowRead entry for "/" undoes it. Links in the root directory lead
// to something that is hidden itself.
func (r *resolver) denyRoot(rule Rule, locked bool) error {
	if n, ok := r.nodes["/"]; ok && n.allowRead && !locked {
		r.warnUndone(rule, n.allowRule)
		return nil
	}
	entries, err := r.fs.ReadDir("/")
	if err != nil {
		return &Error{Code: "unlistable_root", Setting: rule.Setting, Entry: rule.Entry, Reason: "the root directory cannot be listed", Err: err}
	}
	for _, ent := range entries {
		name := "/" + ent.Name
		if ent.Kind == Symlink || fresh(name) || name == kernelTree {
			continue
		}
		if l, err := r.land(name, false); err == nil && !l.done() {
			r.hide(l, rule, locked)
		}
	}
	return nil
}

// hide records a read deny of an existing object.
func (r *resolver) hide(l landing, rule Rule, locked bool) {
	if fresh(l.path) {
		r.warnFresh(rule)
		return
	}
	if l.path == "/" {
		return
	}
	n := r.at(l)
	if !n.deny || locked && !n.locked {
		n.denyRule = rule
	}
	n.deny = true
	n.locked = n.locked || locked
}
