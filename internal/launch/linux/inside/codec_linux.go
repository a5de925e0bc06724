package inside

import (
	"encoding/binary"
	"errors"
)

// The spec is written by one half of srt and read by the other, both the same
// binary. A plain length-prefixed form keeps paths and arguments byte for byte
// and costs no reflection on the way to the first instruction.

// coder either writes or reads each field it is shown, in order.
type coder struct {
	buf     []byte
	reading bool
	bad     bool
}

var errBadSpec = errors.New("reading the launch spec: it is damaged")

func (s *Spec) encode() []byte {
	c := &coder{buf: make([]byte, 0, 16<<10)}
	c.spec(s)
	return c.buf
}

func decodeSpec(data []byte) (*Spec, error) {
	c := &coder{buf: data, reading: true}
	var s Spec
	c.spec(&s)
	if c.bad || len(c.buf) != 0 {
		return nil, errBadSpec
	}
	return &s, nil
}

func (c *coder) spec(s *Spec) {
	list(c, (*[]Op)(&s.Plan), c.op)
	c.flags(&s.Filter.UnixSockets, &s.Filter.NestedNamespaces, &s.Filter.Guard, &s.Filter.Trace, &s.Filter.Unguarded, &s.Filter.Direct, &s.Filter.HostPorts)
	list(c, &s.Names, c.name)
	c.text(&s.Standing)
	list(c, &s.Sockets, func(r *SocketRule) { c.texts(&r.Path, &r.Pattern) })
	list(c, &s.Concealed, func(p *ConcealedPath) { c.texts(&p.Path, &p.Link) })
	list(c, &s.Creatable, func(p *CreatablePath) { c.texts(&p.Path, &p.Parent, &p.First) })
	c.texts(&s.Path, &s.Dir, &s.Home, &s.Private)
	list(c, &s.Args, c.text)
	list(c, &s.Env, c.text)
	list(c, &s.Ports, func(p *int) { number(c, p) })
	number(c, &s.NullFD)
	list(c, &s.HostPorts, func(p *int) { number(c, p) })
	list(c, &s.Published, func(p *int) { number(c, p) })
	list(c, &s.Limits, func(l *ResourceLimit) {
		number(c, &l.Resource)
		number(c, &l.Soft)
		number(c, &l.Hard)
	})
	c.flags(&s.Repositories)
	c.landlock(&s.Landlock)
}

func (c *coder) landlock(s **LandlockSpec) {
	present := *s != nil
	c.flags(&present)
	if !present {
		return
	}
	if c.reading {
		*s = &LandlockSpec{}
	}
	l := *s
	list(c, &l.States, func(p *PathState) {
		c.texts(&p.Path, &p.Rule, &p.Cure, &p.ReadRule, &p.Why)
		c.flags(&p.Read, &p.Write, &p.Missing)
	})
	list(c, &l.Pins, c.text)
	list(c, &l.Forwards, func(f *Forward) { number(c, &f.Port); number(c, &f.Real) })
	c.flags(&l.LocalBinding)
}

func (c *coder) op(o *Op) {
	number(c, &o.Kind)
	c.text(&o.Path)
	c.flags(&o.Write, &o.Symlink, &o.Nested, &o.Dir)
	number(c, &o.Dev)
	number(c, &o.Ino)
}

func (c *coder) name(n *GuardedName) {
	c.texts(&n.Dir, &n.Name, &n.Rule, &n.Cure, &n.Target)
	c.flags(&n.Fold, &n.Exists)
	number(c, &n.Dev)
	number(c, &n.Ino)
}

func number[T ~int | ~uint8 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(*v))
		return
	}
	n, used := binary.Uvarint(c.buf)
	if used <= 0 {
		c.bad, c.buf = true, nil
		return
	}
	*v, c.buf = T(n), c.buf[used:]
}

func (c *coder) flags(fs ...*bool) {
	for _, f := range fs {
		var n uint8
		if *f {
			n = 1
		}
		number(c, &n)
		*f = n == 1
	}
}

func (c *coder) text(s *string) {
	n := len(*s)
	number(c, &n)
	if !c.reading {
		c.buf = append(c.buf, *s...)
		return
	}
	if n < 0 || n > len(c.buf) {
		c.bad, c.buf = true, nil
		return
	}
	*s, c.buf = string(c.buf[:n]), c.buf[n:]
}

func (c *coder) texts(ss ...*string) {
	for _, s := range ss {
		c.text(s)
	}
}

// list codes a slice; item codes one element. Every element takes at least one
// byte, which bounds what damaged input can make the reader allocate.
func list[T any](c *coder, s *[]T, item func(*T)) {
	n := len(*s)
	number(c, &n)
	if c.reading {
		if n < 0 || n > len(c.buf) {
			c.bad, c.buf = true, nil
			return
		}
		*s = make([]T, n)
	}
	for i := range *s {
		item(&(*s)[i])
	}
}
