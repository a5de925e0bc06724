// Package linux confines a command with namespaces, a mount plan, a seccomp
// filter and a small supervisor (srt-init) that is process 1 inside.
//
// A run has two halves. The host half ([Start]) creates the namespaces, sends a
// launch spec and receives the listening sockets. The inside half ([InitMain])
// is the same binary, re-executed: it carries out the mount plan, gives up its
// privileges on one thread, starts the command from there and supervises it.
package linux

import (
	"fmt"
	"path"
	"strings"

	"github.com/srt-sandbox/srt/internal/policy"
)

// OpKind is one kind of step of a mount plan.
type OpKind uint8

// The kinds of step, in the order in which a plan uses them.
const (
	// OpPin bind-mounts a directory or a symbolic link onto itself in the layer
	// below every write root. Lookups never meet it, but rename(2), rmdir(2) and
	// unlink(2) refuse a name that is a mount point in the caller's namespace.
	OpPin OpKind = iota + 1
	// OpBase makes the whole tree nosuid and nodev, and read-only unless Write is set.
	OpBase
	// OpBind shows the pristine host object at its own path, writable if Write is set.
	OpBind
	// OpHideDir covers a directory with an empty one. With Write set it is a
	// private in-memory directory that takes writes and forgets them.
	OpHideDir
	// OpHideFile covers anything that is not a directory with a file nobody can open.
	OpHideFile
)

// Op is one step of a mount plan: plain data, carried out by an executor.
type Op struct {
	Kind  OpKind
	Path  string
	Write bool
	// Symlink marks a pin of the link itself.
	Symlink bool
	// Nested marks a hidden directory that holds places of its own further down.
	Nested bool
	// Dir says that the object at Path is a directory.
	Dir bool
	// Dev and Ino identify the object that was planned for; zero when unknown.
	// An executor that finds another object there stops: somebody moved the
	// tree between the decision and the mount.
	Dev, Ino uint64
}

// String returns the stable text form of the step.
func (o Op) String() string {
	switch o.Kind {
	case OpPin:
		if o.Symlink {
			return "pin link " + quotePath(o.Path)
		}
		return "pin dir " + quotePath(o.Path)
	case OpBase:
		return "base " + access(o.Write) + " " + quotePath(o.Path)
	case OpBind:
		return "bind " + access(o.Write) + " " + quotePath(o.Path)
	case OpHideDir:
		if o.Write {
			return "hide dir scratch " + quotePath(o.Path)
		}
		return "hide dir " + quotePath(o.Path)
	case OpHideFile:
		return "hide file " + quotePath(o.Path)
	}
	return fmt.Sprintf("unknown step %d", o.Kind)
}

func access(write bool) string {
	if write {
		return "rw"
	}
	return "ro"
}

// quotePath keeps ordinary paths readable and makes every other one a single line.
func quotePath(p string) string {
	for i := 0; i < len(p); i++ {
		if p[i] <= ' ' || p[i] == '"' || p[i] >= 0x7f {
			return fmt.Sprintf("%q", p)
		}
	}
	return p
}

// Plan is the ordered list of steps that turns the host's tree into the
// sandbox's. A fresh /dev and /proc are always part of it and not listed.
type Plan []Op

// String returns one step a line, in order.
func (p Plan) String() string {
	var b strings.Builder
	for _, o := range p {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// NewPlan translates a resolved policy. The policy already states the final
// condition of every place, so the translation is one step a place, parents
// first; pins come before everything because they belong to the lowest layer.
func NewPlan(p *policy.Policy) Plan {
	plan := make(Plan, 0, len(p.Pins)+len(p.Places))
	for _, pin := range p.Pins {
		plan = append(plan, Op{Kind: OpPin, Path: pin.Path, Symlink: pin.Symlink, Dir: !pin.Symlink, Dev: pin.Dev, Ino: pin.Ino})
	}
	above := ancestors(p.Places)
	for _, place := range p.Places {
		if !fixedMount(place.Path) {
			plan = append(plan, opFor(place, above[place.Path]))
		}
	}
	return plan
}

func opFor(p policy.Place, nested bool) Op {
	op := Op{Path: p.Path, Write: p.Write, Dir: p.Kind == policy.Dir, Dev: p.Dev, Ino: p.Ino}
	switch {
	case p.Path == "/":
		op.Kind = OpBase
	case p.View == policy.Hidden:
		op.Kind, op.Write, op.Nested, op.Dir = OpHideDir, p.Scratch, nested, true
	case p.View == policy.Masked:
		op.Kind, op.Write = OpHideFile, false
	default:
		op.Kind = OpBind
	}
	return op
}

// ancestors returns every directory that has a place beneath it.
func ancestors(places []policy.Place) map[string]bool {
	above := make(map[string]bool, len(places))
	for _, p := range places {
		for dir := path.Dir(p.Path); !above[dir]; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	return above
}

// beneath reports whether p is strictly inside dir.
func beneath(dir, p string) bool {
	if dir == "/" {
		return p != "/"
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// fixedMount reports whether p belongs to a part of the tree that every sandbox
// gets fresh, where no rule may act.
func fixedMount(p string) bool {
	for _, d := range []string{"/dev", "/proc"} {
		if p == d || beneath(d, p) {
			return true
		}
	}
	return path.Clean(p) != p
}
