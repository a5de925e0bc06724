package inside

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// How [MessageRefused] calls an open for reading, and a rename, which has a second
// path at the end.
const (
	OperationRead   = "read"
	OperationRename = "rename"
)

// readTrace notices opens of what the plan hides. It decides nothing: the mounts
// do, and the kernel performs the call. A caller that changes the path meanwhile
// only spoils its own record.
type readTrace struct {
	// hides tells for each place of the plan whether it hides what the host has
	// there.
	hides map[string]bool
}

func newReadTrace(plan Plan) *readTrace {
	t := &readTrace{hides: map[string]bool{}}
	for _, op := range plan {
		switch op.Kind {
		case OpHideDir, OpHideFile:
			t.hides[op.Path] = true
		case OpBind:
			t.hides[op.Path] = false
		}
	}
	return t
}

// hidden reports whether a real path is hidden. Beneath a hidden directory only
// what is missing is: the rest the command put there itself.
func (t *readTrace) hidden(name string, missing bool) bool {
	for p := name; ; p = path.Dir(p) {
		if hides, ok := t.hides[p]; ok {
			return hides && (missing || p == name)
		}
		if p == "/" {
			return false
		}
	}
}

// traceRead tells the host half of an open that a hidden place is the answer to.
func (g *guard) traceRead(c *call, dirfd int, address uint64, flags int) {
	text, e := g.path(c, address)
	if e != 0 {
		return
	}
	base, e := g.base(c, dirfd, text)
	if e != 0 {
		return
	}
	name, missing := g.realName(c, base, text, flags&unix.O_NOFOLLOW == 0)
	g.release(base)
	if name != "" && g.reads.hidden(name, missing) && g.errors.first(c, OperationRead, name) {
		pid, process := caller(c)
		g.tell(MessageRefused, OperationRead, name, pid, process)
	}
}

// realName returns the real path that a path means, whether or not something is
// there; empty if there is no telling. It takes the longest part that exists and
// adds the rest.
func (g *guard) realName(c *call, base int, text string, follow bool) (name string, missing bool) {
	base, e := dup(base)
	if e != 0 {
		return "", false
	}
	defer func() { unix.Close(base) }()
	rest := ""
	for range 2 * maxSymlinks {
		at, e := g.locateFrom(c, base, text)
		if e == unix.ENOENT {
			parent, last, _ := splitPath(text)
			if strings.Trim(parent, "/") == "" {
				return "", false
			}
			text, rest = parent, path.Join(last, rest)
			continue
		}
		if e != 0 {
			return "", false
		}
		target, e := linkText(at, follow || rest != "" || at.slash)
		if e == 0 {
			unix.Close(base)
			base, text = at.dir, target // the location's descriptor lives on as the base
			continue
		}
		full, unknown := nameOf(at)
		missing = rest != "" || !exists(at)
		at.close()
		if unknown != 0 {
			return "", false
		}
		return path.Join(full, rest), missing
	}
	return "", false
}

// linkText reads a symbolic link that is to be followed; an error says that there
// is none.
func linkText(at location, follow bool) (string, unix.Errno) {
	if !follow || onProc(at.dir) {
		return "", unix.EINVAL
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(at.dir, at.name, buf[:])
	return string(buf[:max(n, 0)]), result(err)
}
