package policy

// Op is something a command does with a path.
type Op uint8

// The operations a policy decides about.
const (
	Read   Op = iota // open for reading, list, execute
	Write            // change contents or metadata
	Create           // make a new name
	Remove           // remove or rename the name
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

// Decide answers for an absolute path as the kernel would resolve it: links are
// followed, in the last component only for reading and writing.
func (p *Policy) Decide(op Op, path string) Decision {
	r := &resolver{fs: &cachedFS{FS: p.fs, infos: map[string]cachedInfo{}}}
	l, err := r.land(path, op == Read || op == Write)
	if err != nil {
		return Decision{Errno: "ELOOP", Path: path}
	}
	d := Decision{Path: l.path, Place: p.StateAt(l.path)}
	if l.closed != "" {
		d.Errno = "EACCES"
		return d
	}
	switch op {
	case Read:
		p.decideRead(&d)
	case Write:
		p.decideWrite(&d)
	case Create:
		p.decideCreate(&d, l)
	case Remove:
		p.decideRemove(&d)
	}
	d.Allow = d.Errno == ""
	return d
}

func (p *Policy) decideRead(d *Decision) {
	d.Rule = d.Place.Rule
	switch {
	case d.Place.View == Masked:
		d.Errno = "EACCES"
	case d.Place.View == Hidden && d.Path != d.Place.Path:
		d.Errno = "ENOENT"
	}
}

func (p *Policy) decideWrite(d *Decision) {
	d.Rule = d.Place.WriteRule
	switch {
	case d.Place.View == Masked:
		d.Errno, d.Rule = "EACCES", d.Place.Rule
	case d.Place.View == Hidden && !d.Place.Scratch:
		d.Errno, d.Rule = "EROFS", d.Place.Rule
	case d.Place.View == Host && !d.Place.Write:
		d.Errno = "EROFS"
	}
}

// decideCreate judges the first missing name on the way.
func (p *Policy) decideCreate(d *Decision, l landing) {
	parent, name := parentOf(d.Path), baseOf(d.Path)
	if l.first != "" {
		parent, name = l.parent, l.first
	}
	if i, ok := p.missing[absentKey(parent, name)]; ok {
		if a := p.Absent[i]; a.Fold || a.Name == name {
			d.Errno, d.Rule = "EPERM", a.Rule
			return
		}
	}
	for _, c := range p.Creatable {
		if within(child(c.Parent, c.First), d.Path) && (within(c.Path, d.Path) || beneath(d.Path, c.Path)) {
			d.Rule = c.Rule
			return
		}
	}
	d.Place = p.StateAt(parent)
	p.decideWrite(d)
}

// decideRemove: a place is a mount point and cannot go; neither can a pin.
func (p *Policy) decideRemove(d *Decision) {
	if _, ok := p.byPath[d.Path]; ok && d.Path != "/" {
		d.Errno, d.Rule = "EBUSY", d.Place.WriteRule
		if s := p.StateAt(parentOf(d.Path)); !s.Write && !s.Scratch {
			d.Errno = "EROFS" // the directory's own refusal comes first
		}
		return
	}
	for _, pin := range p.Pins {
		if pin.Path == d.Path {
			d.Errno = "EBUSY"
			return
		}
	}
	d.Place = p.StateAt(parentOf(d.Path))
	p.decideWrite(d)
}
