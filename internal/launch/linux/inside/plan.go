package inside

import (
	"fmt"
	"strings"
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
// sandbox's. A fresh /dev and /proc are always part of it and not listed. Mount
// calls of srt-init carry it out, or bwrap does; then srt-init only adds what
// bwrap has no option for.
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

// Beneath reports whether p is strictly inside dir.
func Beneath(dir, p string) bool {
	if dir == "/" {
		return p != "/"
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}
