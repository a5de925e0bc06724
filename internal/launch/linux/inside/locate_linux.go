package inside

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// location is a name in an open directory: what the last component of a path
// means once everything before it is resolved.
type location struct {
	dir  int    // O_PATH descriptor, owned
	id   object // of the directory
	name string
	// slash keeps the trailing slash of the path, which demands a directory.
	slash bool
}

func (l location) close() { unix.Close(l.dir) }

// dots reports whether the name is no name of its own.
func (l location) dots() bool { return l.name == "." || l.name == ".." || l.name == "/" }

// look reports what keeps the object at a location from being found.
func (l location) look(follow bool) unix.Errno {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH
	if follow {
		flags = 0
	}
	var st unix.Stat_t
	return result(unix.Fstatat(l.dir, l.last(), &st, flags))
}

// closed reports whether the caller may not search the directory.
func (l location) closed() bool {
	var st unix.Stat_t
	return unix.Fstatat(l.dir, l.name, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.EACCES
}

// sticky reports whether the directory has the bit of that name.
func (l location) sticky() bool {
	var st unix.Stat_t
	return unix.Fstat(l.dir, &st) != nil || st.Mode&unix.S_ISVTX != 0
}

// last is the name as to be given to the kernel.
func (l location) last() string {
	if l.slash {
		return l.name + "/"
	}
	return l.name
}

// locate resolves everything but the last component of a path argument the way
// the kernel would for the caller.
func (g *guard) locate(c *call, dirfd int, address uint64) (location, unix.Errno) {
	path, e := g.path(c, address)
	if e != 0 {
		return location{}, e
	}
	base, e := g.base(c, dirfd, path)
	if e != 0 {
		return location{}, e
	}
	defer g.release(base)
	return g.locateFrom(c, base, path)
}

// base opens the directory that the path starts from. It is to be released.
func (g *guard) base(c *call, dirfd int, path string) (int, unix.Errno) {
	if path == "" {
		return -1, unix.ENOENT
	}
	if path[0] == '/' {
		return g.root, 0
	}
	return g.descriptor(c, dirfd, unix.O_DIRECTORY)
}

func (g *guard) release(base int) {
	if base != g.root {
		unix.Close(base)
	}
}

func dup(fd int) (int, unix.Errno) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	return n, 0
}

// locateFrom is locate for a path relative to an open directory.
func (g *guard) locateFrom(c *call, base int, path string) (location, unix.Errno) {
	parent, name, slash := splitPath(path)
	dir, id, e := g.walkDir(c, base, parent)
	if e != 0 {
		return location{}, e
	}
	return location{dir: dir, id: id, name: name, slash: slash}, 0
}

// splitPath separates the last component; trailing slashes belong to it.
func splitPath(path string) (parent, name string, slash bool) {
	trimmed := strings.TrimRight(path, "/")
	slash = len(trimmed) < len(path)
	if trimmed == "" {
		return "/", "/", false // the kernel knows the root by this name only
	}
	cut := strings.LastIndexByte(trimmed, '/')
	return trimmed[:cut+1], trimmed[cut+1:], slash
}

// walkDir opens the directory that path means for the caller, starting at base.
// One call of openat2(2) does it unless /proc is on the way, where the meaning
// depends on who asks.
func (g *guard) walkDir(c *call, base int, path string) (int, object, unix.Errno) {
	fd, e := g.walkAtOnce(base, path)
	if e == 0 {
		id, proc, e := g.identify(fd)
		if e == 0 && !proc {
			return fd, id, 0
		}
		unix.Close(fd)
		if e != 0 {
			return -1, id, e
		}
	} else if e != errProcOnTheWay {
		return -1, object{}, e
	}
	if fd, e = g.walkSlowly(c, base, path); e != 0 {
		return -1, object{}, e
	}
	id, _, e := g.identify(fd)
	if e != 0 {
		unix.Close(fd)
	}
	return fd, id, e
}

// errProcOnTheWay says that only a walk by component gives the caller's view.
const errProcOnTheWay = unix.ELOOP

// walkAtOnce lets the kernel resolve the path.
func (g *guard) walkAtOnce(base int, path string) (int, unix.Errno) {
	if path == "" {
		return dup(base)
	}
	relative := strings.TrimLeft(path, "/")
	if len(relative) < len(path) {
		base = g.root
	}
	if relative == "" || strings.HasPrefix(path, "/proc/") || base != g.root && onProc(base) {
		return -1, errProcOnTheWay
	}
	fd, err := unix.Openat2(base, relative, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	return fd, result(err)
}

// identify tells which directory a descriptor refers to and whether it is one of
// a /proc.
func (g *guard) identify(fd int) (id object, proc bool, e unix.Errno) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return object{}, false, errnoOf(err)
	}
	return object{st.Dev, st.Ino}, g.isProc(fd, st.Dev), 0
}

// walkSlowly resolves component by component, so that /proc/self means the
// caller and nothing of srt-init's own /proc entries is ever entered.
func (g *guard) walkSlowly(c *call, base int, path string) (int, unix.Errno) {
	if strings.HasPrefix(path, "/") {
		base = g.root
	}
	w := walk{g: g, c: c}
	if e := w.enter(base); e != 0 {
		return -1, e
	}
	w.rest = components(path)
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		if e := w.step(name); e != 0 {
			unix.Close(w.dir)
			return -1, e
		}
	}
	return w.dir, w.mustBeDir()
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

type walk struct {
	g     *guard
	c     *call
	dir   int
	rest  []string
	links int
}

// enter starts the walk at base.
func (w *walk) enter(base int) unix.Errno {
	fd, e := dup(base)
	w.dir = fd
	return e
}

func (w *walk) mustBeDir() unix.Errno {
	var st unix.Stat_t
	if unix.Fstat(w.dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return 0
	}
	unix.Close(w.dir)
	return unix.ENOTDIR
}

// step moves the walk by one component.
func (w *walk) step(name string) unix.Errno {
	if name == "." {
		return 0
	}
	next, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	proc := onProc(w.dir)
	if proc {
		if e := w.g.checkProcName(w.c, w.dir, name); e != 0 {
			unix.Close(next)
			return e
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(next, &st); err != nil {
		unix.Close(next)
		return errnoOf(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		w.move(next)
		return 0
	}
	unix.Close(next)
	return w.follow(name, proc)
}

func (w *walk) move(next int) {
	unix.Close(w.dir)
	w.dir = next
}

// follow resolves a symbolic link. Links of /proc below a process are not text:
// the kernel alone can follow them.
func (w *walk) follow(name string, proc bool) unix.Errno {
	if w.links++; w.links > maxSymlinks {
		return unix.ELOOP
	}
	if proc && !isProcRoot(w.dir) {
		next, err := w.g.follow(w.c, w.dir, name)
		if err != nil {
			return errnoOf(err)
		}
		if e := w.g.reached(w.c, next); e != 0 {
			unix.Close(next)
			return e
		}
		w.move(next)
		return 0
	}
	target, e := w.g.linkTarget(w.c, w.dir, name)
	if e != 0 {
		return e
	}
	if strings.HasPrefix(target, "/") {
		root, e := dup(w.g.root)
		if e != 0 {
			return e
		}
		w.move(root)
	}
	w.rest = append(components(target), w.rest...)
	return 0
}

// linkTarget reads a link as the caller would see it.
func (g *guard) linkTarget(c *call, dir int, name string) (string, unix.Errno) {
	if onProc(dir) && isProcRoot(dir) && (name == "self" || name == "thread-self") {
		tgid, e := threadGroup(c.pid)
		if e != 0 {
			return "", e
		}
		if name == "self" {
			return strconv.Itoa(tgid), 0
		}
		return fmt.Sprintf("%d/task/%d", tgid, c.pid), 0
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", errnoOf(err)
	}
	return string(buf[:n]), 0
}
