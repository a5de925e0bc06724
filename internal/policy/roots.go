package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/srt-sandbox/srt/config"
)

// rootKind says whose write root an entry is.
type rootKind uint8

const (
	configured rootKind = iota
	addedBySrt
	convenience
)

// rootCandidate is an entry that may become a write root.
type rootCandidate struct {
	it   item
	kind rootKind
	l    landing
}

// writeRoots records the allowWrite entries that take effect. An entry that
// leads through a link does only where no command can have planted the link.
func (r *resolver) writeRoots() error {
	all, tops, err := r.allRootCandidates()
	if err != nil {
		return err
	}
	for _, c := range all {
		if bad := r.untrusted(c.l.links, tops); bad != "" {
			if c.kind == configured {
				r.warn(c.it.rule, "has no effect: "+bad+" is a symbolic link that a command could have planted; name its target instead")
			}
			continue
		}
		r.addRoot(c)
	}
	return nil
}

// allRootCandidates returns what may become write roots, and where they are.
func (r *resolver) allRootCandidates() (all []rootCandidate, tops []string, err error) {
	for _, it := range items("filesystem.allowWrite", "", r.in.Config.Filesystem.AllowWrite) {
		it.PathEntry = wholeTree(it.PathEntry)
		found, err := r.rootCandidates(it, configured)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found...)
	}
	for _, p := range r.in.ExtraWrite {
		found, err := r.rootCandidates(item{PathEntry: literal(p), rule: builtIn("temporary directory")}, addedBySrt)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found...)
	}
	all = append(all, r.conveniences()...)
	for _, c := range all {
		tops = append(tops, c.l.path)
	}
	return all, tops, nil
}

// RealPath returns where a file is that srt is about to write for the user, without
// the links on the way to it. One that a command of this user could have planted
// there is an error: whoever plants it chooses where srt writes. The last name is
// left as it is; it may be missing.
func RealPath(ctx context.Context, in Input, name string) (string, error) {
	r, cancel := newResolver(ctx, in)
	defer cancel()
	_, tops, err := r.allRootCandidates()
	if err != nil {
		return "", err
	}
	l, err := r.land(name, false)
	if err != nil {
		return "", err
	}
	if in.Config.Filesystem.Disabled {
		tops = []string{"/"}
	}
	if bad := r.untrusted(l.links, tops); bad != "" {
		return "", fmt.Errorf("%s is a symbolic link that a command could have planted; name its target instead", bad)
	}
	return l.path, nil
}

func literal(p string) config.PathEntry { return config.PathEntry{Path: p, Literal: true} }

// rootCandidates follows the names that an entry means.
func (r *resolver) rootCandidates(it item, kind rootKind) ([]rootCandidate, error) {
	readings, err := r.readings(it, true)
	if err != nil {
		return nil, err
	}
	var found []rootCandidate
	named := false
	for _, rd := range readings {
		if rd.pattern != "" {
			continue
		}
		named = true
		if fresh(rd.name) {
			if !provided(rd.name) {
				r.warnFresh(it.rule)
			}
			continue // always there, as far as a command may have it
		}
		l, err := r.land(rd.name, true)
		if err != nil {
			r.warn(it.rule, "has no effect: "+err.Error())
			continue
		}
		found = append(found, rootCandidate{it: it, kind: kind, l: l})
	}
	switch {
	case len(readings) == 0:
		r.warn(it.rule, "has no effect: the home directory is not known; set HOME")
	case !named:
		r.warn(it.rule, "is a pattern and has no effect; allowWrite takes names of files and directories")
	}
	return found, nil
}

// conveniences are directories of the user's own that tools write logs to.
func (r *resolver) conveniences() []rootCandidate {
	paths := []string{"/tmp/claude"}
	if r.in.Home != "" {
		paths = append(paths, r.in.Home+"/.npm/_logs", r.in.Home+"/.claude/debug")
	}
	var all []rootCandidate
	for _, p := range paths {
		l, err := r.land(p, false)
		if err == nil && l.info.Kind == Dir && l.info.UID == r.in.UID {
			all = append(all, rootCandidate{it: item{rule: builtIn(p)}, kind: convenience, l: l})
		}
	}
	return all
}

func (r *resolver) addRoot(c rootCandidate) {
	switch {
	case fresh(c.l.path):
		if !provided(c.l.path) {
			r.warnFresh(c.it.rule)
		}
	case c.l.closed != "":
		r.warn(c.it.rule, "has no effect: "+c.l.closed+" cannot be searched")
	case c.l.fileInWay:
		r.warn(c.it.rule, "has no effect: "+c.l.path+" is not a directory")
	case c.l.first != "":
		r.out.Creatable = append(r.out.Creatable, Creatable{Path: c.l.path, Parent: c.l.parent, First: c.l.first, Rule: c.it.rule})
	default:
		n := r.at(c.l)
		if n.root && (!n.weak || c.kind == convenience) {
			return
		}
		n.root, n.weak, n.rootRule = true, c.kind == convenience, c.it.rule
		if !n.weak {
			r.carved = append(r.carved, n.path)
		}
		if c.kind == configured && n.info.Kind == Dir {
			r.roots = append(r.roots, n.path)
		}
	}
}

// untrusted returns the first of the links that a command of this user could
// have made, or "". tops are the paths that commands can write.
func (r *resolver) untrusted(links, tops []string) string {
	for _, l := range links {
		if !r.trustedLink(l, tops) {
			return l
		}
	}
	return ""
}

// trustedLink: the link and every directory above it belong to root, and nobody
// else may write them. That says nothing where the command's user is root; then
// a link is trusted only away from where commands of root run.
func (r *resolver) trustedLink(link string, tops []string) bool {
	if r.in.UID == 0 {
		tops = append(slices.Clip(tops), r.in.Cwd, r.in.Home)
	}
	if slices.ContainsFunc(tops, func(top string) bool { return top != "" && within(top, link) }) {
		return false
	}
	if info, err := r.fs.Lstat(link); err != nil || info.UID != 0 {
		return false
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

// keepCreatable drops the missing allowWrite entries that need no help, because
// the command can create them anyway, and those that a deny touches: what
// appears there would escape the deny.
func (r *resolver) keepCreatable() {
	p := r.out
	p.Creatable = slices.DeleteFunc(p.Creatable, func(c Creatable) bool {
		s := r.stateOf(c.Parent)
		if p.writable(c.Parent) || fresh(c.Parent) || within("/sys", c.Parent) {
			return true
		}
		why := ""
		switch {
		case s.view != Host:
			why = s.rule.String() + " hides it"
		case s.deny:
			why = s.denyRule.String() + " covers it"
		default:
			for _, a := range r.absents {
				if within(a.Full, c.Path) || within(c.Path, a.Full) {
					why = a.Rule.String() + " denies " + a.Full
				}
			}
		}
		if why != "" {
			r.warn(c.Rule, "does not exist yet and cannot be created: "+why)
		}
		return why != ""
	})
}

// warnCovered names the write roots that a deny leaves without effect.
func (r *resolver) warnCovered(marks []*mark) {
	for _, n := range marks {
		s := r.stateOf(n.path)
		if !n.root || n.rootRule.Setting == builtInSetting || s.write() {
			continue
		}
		by := s.denyRule
		if s.view != Host {
			by = s.rule
		}
		r.warn(n.rootRule, "has no effect: "+by.String()+" covers it")
	}
}
