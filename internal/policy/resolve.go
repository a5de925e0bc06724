package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
)

// defaultScanTimeout bounds every look at the file system together.
const defaultScanTimeout = 10 * time.Second

// resolver collects, for each real path, what the lists say about it.
type resolver struct {
	ctx     context.Context
	timeout time.Duration
	in      Input
	fs      *cachedFS
	nodes   map[string]*mark
	links   map[string]bool // links to pin
	absents []Absent
	out     *Policy
	// roots are the write roots in which protected names are looked for.
	roots []string
}

// mark is what the lists say about one real path.
type mark struct {
	path string
	info Info

	deny, locked, allowRead bool
	root                    bool
	// weak roots are srt's own conveniences: they do not show what a read deny hides.
	weak      bool
	writeDeny bool

	denyRule, allowRule, rootRule, writeDenyRule Rule
}

// Resolve turns settings into a policy for one working directory. The error is
// an [*Error] for an entry that cannot be enforced.
func Resolve(ctx context.Context, in Input) (*Policy, error) {
	timeout := in.ScanTimeout
	if timeout == 0 {
		timeout = defaultScanTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &resolver{ctx: bounded, timeout: timeout, in: in, fs: &cachedFS{FS: in.FS, infos: map[string]cachedInfo{}},
		nodes: map[string]*mark{}, links: map[string]bool{}, out: &Policy{fs: in.FS}}
	r.in.Home = r.realHome()
	if in.Config.Filesystem.Disabled {
		return r.disabled(), nil
	}
	steps := []func() error{r.writeRoots, r.readDenies, r.readAllows, r.credentialDenies, r.ownDenies, r.writeDenies, r.mandatoryDenies}
	for _, step := range steps {
		if err := step(); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, err
		}
	}
	return r.finish()
}

// realHome resolves links on the way to the home directory, which the caller's
// environment names and no command can choose.
func (r *resolver) realHome() string {
	if r.in.Home == "" {
		return ""
	}
	l, err := r.land(r.in.Home, true)
	if err != nil || l.info.Kind != Dir {
		return r.in.Home
	}
	return l.path
}

// disabled is the policy without file rules.
func (r *resolver) disabled() *Policy {
	p := r.out
	p.Disabled = true
	p.Places = []Place{{Path: "/", Kind: Dir, Write: true, WriteRule: Rule{Setting: "filesystem.disabled"}}}
	p.index()
	return p
}

// at returns the mark of a real path.
func (r *resolver) at(l landing) *mark {
	n, ok := r.nodes[l.path]
	if !ok {
		n = &mark{path: l.path, info: l.info}
		r.nodes[l.path] = n
	}
	return n
}

func (r *resolver) warn(it item, message string) {
	r.out.Warnings = append(r.out.Warnings, Warning{Setting: it.rule.Setting, Entry: it.rule.Entry, Message: message})
}

// items lists the entries of a list with their places in the settings.
func items(setting, cure string, entries []config.PathEntry) []item {
	all := make([]item, 0, len(entries))
	for i, e := range entries {
		all = append(all, item{PathEntry: e, rule: Rule{Setting: fmt.Sprintf("%s[%d]", setting, i), Entry: e.Path, Cure: cure}})
	}
	return all
}

// underDevices reports whether a path lies where every sandbox has fresh files.
func fresh(p string) bool {
	return within("/dev", p) || within("/proc", p)
}

// writeRoots records the allowWrite entries that take effect. Entries that lead
// through a link come second, when it is known where a command could have
// planted one.
func (r *resolver) writeRoots() error {
	var linked []rootCandidate
	for _, it := range r.writeItems() {
		readings, err := r.readings(it, true)
		if err != nil {
			return err
		}
		named := false
		for _, rd := range readings {
			if rd.pattern != "" {
				continue
			}
			named = true
			c := rootCandidate{it: it, name: rd.name}
			if c.l, err = r.land(rd.name, true); err != nil {
				r.warn(it, "has no effect: "+err.Error())
				continue
			}
			if len(c.l.links) > 0 {
				linked = append(linked, c)
				continue
			}
			r.addRoot(c)
		}
		if !named && it.rule.Setting != "built-in" && len(readings) > 0 {
			r.warn(it, "is a pattern and has no effect; allowWrite takes names of files and directories")
		}
	}
	for _, c := range linked {
		if !r.trustedLinks(c.l.links) {
			r.warn(c.it, "has no effect: "+c.l.links[0]+" is a symbolic link that a command could have planted; name the target instead")
			continue
		}
		r.addRoot(c)
	}
	return nil
}

type rootCandidate struct {
	it   item
	name string
	l    landing
}

// writeItems are the configured entries and the paths that are always writable.
func (r *resolver) writeItems() []item {
	all := items("filesystem.allowWrite", "", r.in.Config.Filesystem.AllowWrite)
	own := Rule{Setting: "built-in", Entry: "temporary directory"}
	for _, p := range r.in.ExtraWrite {
		all = append(all, item{PathEntry: config.PathEntry{Path: p, Literal: true}, rule: own})
	}
	conveniences := []string{"/tmp/claude"}
	if r.in.Home != "" {
		conveniences = append(conveniences, r.in.Home+"/.npm/_logs", r.in.Home+"/.claude/debug")
	}
	for _, p := range conveniences {
		if info, err := r.fs.Lstat(p); err == nil && info.Kind == Dir && info.UID == r.in.UID {
			all = append(all, item{PathEntry: config.PathEntry{Path: p, Literal: true}, rule: Rule{Setting: "built-in", Entry: p}})
		}
	}
	return all
}

func (r *resolver) addRoot(c rootCandidate) {
	builtIn := c.it.rule.Setting == "built-in"
	switch {
	case fresh(c.l.path):
	case c.l.closed != "" || c.l.fileInWay:
		r.warn(c.it, "has no effect: "+c.l.path+" cannot be reached")
	case c.l.first != "":
		r.out.Creatable = append(r.out.Creatable, Creatable{Path: c.l.path, Parent: c.l.parent, First: c.l.first, Rule: c.it.rule})
	default:
		n := r.at(c.l)
		if n.root && !n.weak {
			return
		}
		n.root, n.rootRule = true, c.it.rule
		n.weak = builtIn && !slices.Contains(r.in.ExtraWrite, c.name)
		if !builtIn && n.info.Kind == Dir {
			r.roots = append(r.roots, n.path)
		}
	}
}

// trustedLinks reports whether no command of this user can have made any of
// the links: each lies in directories that belong to root and that nobody else
// may write, up to the root.
func (r *resolver) trustedLinks(links []string) bool {
	for _, l := range links {
		if !r.trustedLink(l) {
			return false
		}
	}
	return true
}

func (r *resolver) trustedLink(link string) bool {
	for _, n := range r.nodes {
		if n.root && within(n.path, link) {
			return false
		}
	}
	for dir := parentOf(link); ; dir = parentOf(dir) {
		info, err := r.fs.Lstat(dir)
		if err != nil || info.UID != 0 || info.Mode&0o022 != 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

// readDenies records what denyRead hides.
func (r *resolver) readDenies() error {
	for _, it := range items("filesystem.denyRead", "", r.in.Config.Filesystem.DenyRead) {
		it.rule.Cure = fmt.Sprintf("add a path to filesystem.allowRead, or remove %q from filesystem.denyRead", it.Path)
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
		it := item{PathEntry: config.PathEntry{Path: f.Path}, rule: Rule{Setting: fmt.Sprintf("credentials.files[%d]", i), Entry: f.Path,
			Cure: fmt.Sprintf("remove %q from credentials.files", f.Path)}}
		if err := r.denyRead(it, true); err != nil {
			return err
		}
	}
	return nil
}

// sshDropIns is hidden because its files look foreign-owned in a user namespace
// and make every ssh refuse to run.
const sshDropIns = "/etc/ssh/ssh_config.d"

func (r *resolver) ownDenies() error {
	if info, err := r.fs.Lstat(sshDropIns); err != nil || info.Kind != Dir {
		return nil //nolint:nilerr // nothing to hide
	}
	l, err := r.land(sshDropIns, true)
	if err == nil && l.info.Kind == Dir {
		r.hide(l, Rule{Setting: "built-in", Entry: sshDropIns}, false)
	}
	return nil
}

func (r *resolver) denyRead(it item, credential bool) error {
	readings, err := r.readings(it, false)
	if err != nil {
		return err
	}
	for _, rd := range readings {
		if rd.pattern == "" {
			err = r.denyName(rd.name, it, credential)
		} else {
			err = r.denyPattern(rd, it, credential)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) denyPattern(rd reading, it item, credential bool) error {
	found, err := r.expand(rd, it.rule)
	if err != nil {
		return err
	}
	for _, m := range found {
		l, err := r.land(m.path, false)
		if err != nil || l.done() {
			continue
		}
		r.hide(l, it.rule, credential || m.unlistable)
		if rd.subtree && m.kind == Dir && !m.unlistable {
			r.denyEntriesOf(m.path, it)
		}
	}
	return nil
}

// denyEntriesOf marks the entries of a directory that a pattern with "/**"
// matched. Each is a match of its own and stays denied even where an allowRead
// entry shows the directory again.
func (r *resolver) denyEntriesOf(dir string, it item) {
	for _, a := range items("", "", r.in.Config.Filesystem.AllowRead) {
		readings, err := r.readings(a, true)
		if err != nil {
			continue
		}
		for _, rd := range readings {
			if rd.pattern == "" && within(dir, rd.name) {
				r.denyChildren(rd.name, it)
			}
		}
	}
}

func (r *resolver) denyChildren(dir string, it item) {
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return
	}
	for _, ent := range entries {
		if l, err := r.land(child(dir, ent.Name), true); err == nil && !l.done() {
			r.hide(l, it.rule, false)
		}
	}
}

// denyName hides one name, wherever it leads.
func (r *resolver) denyName(name string, it item, credential bool) error {
	if fresh(name) {
		return nil
	}
	if name == "/" {
		return r.denyRoot(it, credential)
	}
	l, err := r.land(name, true)
	switch {
	case errors.Is(err, errLinkCycle):
		return nil // leads nowhere
	case err != nil:
		return err
	case l.closed != "":
		return r.standIn(l.closed, it)
	case l.first != "":
		r.forbid(l, it.rule, false, true)
		return nil
	case l.fileInWay:
		return nil
	case l.path == "/":
		// A link to the root: hide the directory that holds the link.
		return r.standIn(parentOf(l.links[len(l.links)-1]), it)
	}
	r.hide(l, it.rule, credential)
	r.pinLinks(l.links)
	return nil
}

// standIn hides the deepest directory that can be looked at when the entry
// itself cannot: a command may have closed the way, and could open it again.
func (r *resolver) standIn(dir string, it item) error {
	l, err := r.land(dir, true)
	if err != nil || l.done() || l.path == "/" {
		return &Error{Code: "unlistable_root", Setting: it.rule.Setting, Entry: it.rule.Entry, Reason: "the way to it cannot be inspected, and only the root directory is left to hide", Err: err}
	}
	r.hide(l, it.rule, true)
	return nil
}

// denyRoot hides everything in the root directory but what a process needs to
// exist. An allowRead entry for "/" undoes it.
func (r *resolver) denyRoot(it item, credential bool) error {
	for _, a := range r.in.Config.Filesystem.AllowRead {
		if r.absolute(strings.TrimSuffix(a.Path, "/**")) == "/" || a.Path == "/**" {
			return nil
		}
	}
	entries, err := r.fs.ReadDir("/")
	if err != nil {
		return &Error{Code: "unlistable_root", Setting: it.rule.Setting, Entry: it.rule.Entry, Reason: "the root directory cannot be listed", Err: err}
	}
	for _, ent := range entries {
		switch ent.Name {
		case "proc", "dev", "sys":
			continue
		}
		if l, err := r.land("/"+ent.Name, true); err == nil && !l.done() && l.path != "/" {
			r.hide(l, it.rule, credential)
		}
	}
	return nil
}

func (r *resolver) hide(l landing, rule Rule, locked bool) {
	if l.path == "/" || fresh(l.path) || within("/sys", l.path) {
		return
	}
	n := r.at(l)
	if !n.deny || locked && !n.locked {
		n.denyRule = rule
	}
	n.deny = true
	n.locked = n.locked || locked
}

// readAllows records what is shown again inside hidden directories.
func (r *resolver) readAllows() error {
	for _, it := range items("filesystem.allowRead", "", r.in.Config.Filesystem.AllowRead) {
		readings, err := r.readings(it, true)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			names := []string{rd.name}
			if rd.pattern != "" {
				if names, err = r.expandAllow(rd); err != nil {
					return err
				}
			}
			for _, name := range names {
				r.allowRead(name, it)
			}
		}
	}
	return nil
}

// allowRead shows one name again. A name that is itself a link shows nothing:
// whoever can plant it chooses its target.
func (r *resolver) allowRead(name string, it item) {
	l, err := r.land(name, false)
	if err != nil || l.done() || fresh(l.path) {
		return
	}
	if l.info.Kind == Symlink {
		r.warn(it, "has no effect: it is a symbolic link; name its target")
		return
	}
	n := r.at(l)
	n.allowRead, n.allowRule = true, it.rule
}

// writeDenies records denyWrite and the files that decide about later runs.
func (r *resolver) writeDenies() error {
	for _, it := range items("filesystem.denyWrite", "", r.in.Config.Filesystem.DenyWrite) {
		it.rule.Cure = fmt.Sprintf("remove %q from filesystem.denyWrite", it.Path)
		readings, err := r.readings(it, false)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			if rd.pattern == "" {
				err = r.denyWrite(rd.name, it.rule, false)
			} else {
				err = r.denyWritePattern(rd, it)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, p := range r.in.Protected {
		if err := r.denyWrite(p, Rule{Setting: "built-in", Entry: p}, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) denyWritePattern(rd reading, it item) error {
	found, err := r.expand(rd, it.rule)
	if err != nil {
		return err
	}
	for _, m := range found {
		if err := r.denyWrite(m.path, it.rule, false); err != nil {
			return err
		}
	}
	r.warn(it, "protects the files that match now; files that appear later and match are not covered")
	return nil
}

// denyWrite protects a name, existing or not, and every link on the way to it.
func (r *resolver) denyWrite(name string, rule Rule, fold bool) error {
	if fresh(name) {
		return nil
	}
	l, err := r.land(name, true)
	switch {
	case errors.Is(err, errLinkCycle):
		if r.underRoot(name) {
			return &Error{Code: "link_cycle", Setting: rule.Setting, Entry: rule.Entry, Reason: "it cannot be protected", Err: err}
		}
		return nil
	case err != nil:
		return err
	}
	r.pinLinks(l.links)
	switch {
	case fresh(l.path):
	case l.closed != "":
		if c, err := r.land(l.closed, true); err == nil && !c.done() {
			r.protect(c, rule)
		}
	case l.first != "":
		r.forbid(l, rule, fold, false)
	default:
		r.protect(l, rule)
	}
	return nil
}

func (r *resolver) protect(l landing, rule Rule) {
	n := r.at(l)
	if !n.writeDeny {
		n.writeDeny, n.writeDenyRule = true, rule
	}
}

// forbid records a name that must not appear.
func (r *resolver) forbid(l landing, rule Rule, fold, read bool) {
	info, err := r.fs.Lstat(l.parent)
	if err != nil {
		return
	}
	r.absents = append(r.absents, Absent{Parent: l.parent, Name: l.first, Fold: fold, Full: l.path, Dev: info.Dev, Ino: info.Ino, Read: read, Rule: rule})
}

func (r *resolver) pinLinks(links []string) {
	for _, l := range links {
		r.links[l] = true
	}
}

func (r *resolver) underRoot(p string) bool {
	for _, n := range r.nodes {
		if n.root && within(n.path, p) {
			return true
		}
	}
	return false
}
