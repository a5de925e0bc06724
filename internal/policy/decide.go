package policy

import (
	"io/fs"
	"path"

	"github.com/srt-sandbox/srt/internal/protected"
)

// Op is something a command does with a path.
type Op uint8

// The operations a policy decides about.
const (
	Read       Op = iota // open for reading
	List                 // list a directory
	Execute              // run a program
	Write                // change contents or metadata
	Create               // make a new name
	Remove               // remove a name
	RenameFrom           // give a name up
	RenameTo             // take a name, replacing what has it
	Link                 // make a symbolic link
)

// Decision is the answer to an operation.
type Decision struct {
	Allow bool
	// Errno is the name of the error a command gets, empty when allowed.
	Errno string
	// Rule decided; empty where nothing but the default did.
	Rule Rule
	// Place is the state that decided, Path the real path it was looked up for.
	Place Place
	Path  string
}

// Decide answers for an absolute path as the kernel would resolve it inside the
// sandbox: links are followed, in the last component only by operations that
// open; what is hidden is not there. Permission bits of the host are left
// aside. The cost depends on the path, not on the number of rules.
func (p *Policy) Decide(op Op, path string) Decision {
	l, err := land(insideView{p}, path, op <= Write)
	if err != nil {
		return Decision{Errno: "ELOOP", Path: path}
	}
	d := Decision{Path: l.path, Place: p.StateAt(l.path)}
	switch {
	case l.closed != "":
		d.Errno = "EACCES"
	case l.fileInWay:
		d.Errno = "ENOTDIR"
		if p.StateAt(l.path).View == Masked {
			d.Rule = d.Place.Rule
		}
	case op <= Execute:
		p.decideRead(&d, op)
	case op == Write && l.first == "":
		p.decideWrite(&d)
	case (op == Create || op == Link) && l.first == "":
		d.Errno = "EEXIST"
	case op == Write || op == Create || op == Link || op == RenameTo && l.first != "":
		p.decideCreate(&d, l)
		if op == Link && d.Errno == "" {
			p.decideLink(&d)
		}
	default:
		p.decideRemove(&d)
	}
	d.Allow = d.Errno == ""
	return d
}

// insideView is the tree as a command sees it.
type insideView struct{ p *Policy }

func (v insideView) Lstat(path string) (Info, error) {
	if s := v.p.StateAt(path); s.View == Hidden && s.Path != path {
		if v.p.ways[path] {
			return Info{Kind: Dir}, nil
		}
		return Info{}, fs.ErrNotExist
	}
	return v.p.fs.Lstat(path)
}

func (v insideView) Readlink(path string) (string, error) { return v.p.fs.Readlink(path) }

func (p *Policy) decideRead(d *Decision, op Op) {
	d.Rule = d.Place.Rule
	switch {
	case d.Place.View == Masked:
		d.Errno = "EACCES"
	case d.Place.View == Hidden && d.Path != d.Place.Path && !p.ways[d.Path]:
		d.Errno = "ENOENT"
	case d.Place.View == Hidden && op == Execute:
		d.Errno = "EACCES"
	}
}

func (p *Policy) decideWrite(d *Decision) {
	d.Rule = d.Place.WriteRule
	switch {
	case d.Place.View == Masked:
		d.Errno, d.Rule = "EACCES", d.Place.Rule
	case d.Place.View == Hidden && !d.Place.Scratch:
		d.Errno, d.Rule = "EROFS", d.Place.Rule
	case d.Place.View == Host && !d.Place.Write && !fresh(d.Path):
		d.Errno = "EROFS"
	case d.Place.View == Host:
		if rule, ok := p.isAbsent(parentOf(d.Path), path.Base(d.Path)); ok {
			d.Errno, d.Rule = "EPERM", rule // there all the same
		}
	}
}

// decideCreate judges the first missing name on the way.
func (p *Policy) decideCreate(d *Decision, l landing) {
	d.Place = p.StateAt(l.parent)
	if d.Place.View == Host {
		if rule, ok := p.forbidden(l.parent, l.first); ok {
			d.Errno, d.Rule = "EPERM", rule
			return
		}
	}
	for _, k := range p.Kept {
		if within(k.Path, d.Path) || k.Fold && within(lowerASCII(k.Path), lowerASCII(d.Path)) {
			d.Errno, d.Rule = "EPERM", k.Rule
			return
		}
	}
	if rule, ok := p.creates(d.Path); ok {
		d.Rule = rule
		return
	}
	p.decideWrite(d)
}

// decideLink: no symbolic link takes the place of a directory that was there.
func (p *Policy) decideLink(d *Decision) {
	if ban, ok := p.Standing.ForbidsLink(d.Path); ok {
		d.Errno, d.Rule = "EPERM", banned(ban)
	}
}

// forbidden finds the rule against a missing name in a directory.
func (p *Policy) forbidden(dir, name string) (Rule, bool) {
	if rule, ok := p.isAbsent(dir, name); ok {
		return rule, true
	}
	if !protected.Candidate(name) {
		return Rule{}, false
	}
	ban, ok := p.Standing.Forbids(dir, p.fs.Identify(dir), name)
	return banned(ban), ok
}

func (p *Policy) isAbsent(dir, name string) (Rule, bool) {
	rule, ok := p.absent[child(dir, name)]
	if !ok {
		rule, ok = p.folded[child(dir, lowerASCII(name))]
	}
	return rule, ok
}

func banned(b protected.Ban) Rule {
	return Rule{Setting: builtInSetting, Entry: b.Entry, Cure: b.Cure}
}

// creates finds the missing allowWrite entry that a path is, leads to or lies in.
func (p *Policy) creates(path string) (Rule, bool) {
	if rule, ok := p.toCreatable[path]; ok {
		return rule, true
	}
	for ; path != "/"; path = parentOf(path) {
		if rule, ok := p.creatable[path]; ok {
			return rule, true
		}
	}
	return Rule{}, false
}

// decideRemove: a place is a mount point and cannot go; neither can a pin.
func (p *Policy) decideRemove(d *Decision) {
	at := d.Place
	_, isPlace := p.byPath[d.Path]
	d.Place = p.StateAt(parentOf(d.Path))
	p.decideWrite(d)
	if d.Errno == "" && (isPlace || p.pins[d.Path]) {
		d.Errno = "EBUSY"
		switch {
		case !isPlace:
			d.Rule = p.ruleBelow(d.Path)
		case at.View != Host:
			d.Rule = at.Rule
		default:
			d.Rule = at.WriteRule
		}
	}
}

// ruleBelow finds what is protected beneath, or behind, a pin.
func (p *Policy) ruleBelow(pin string) Rule {
	for _, place := range p.Places {
		if beneath(pin, place.Path) && place.View != Host {
			return place.Rule
		}
		if beneath(pin, place.Path) && !place.Write {
			return place.WriteRule
		}
	}
	for _, a := range p.Absent {
		if within(pin, a.Parent) {
			return a.Rule
		}
	}
	return builtIn("the way to a protected place")
}
