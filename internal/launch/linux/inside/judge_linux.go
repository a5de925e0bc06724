package inside

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Without mounts the guard is what holds the file rules: it decides about the
// real place of its own descriptors, and Landlock refuses whatever it does not
// do itself.

// openChanges are the flags with which an open can change something.
const openChanges = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// nameOf returns the real path of a location.
func nameOf(at location) (string, unix.Errno) {
	dir, e := objectName(at.dir)
	if e == 0 && dir == "" {
		e = unix.ENOENT
	}
	return path.Join(dir, at.name), e
}

// objectName returns the real path of an open object; empty when it has no name
// any more, or never had one.
func objectName(fd int) (string, unix.Errno) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", errnoOf(err)
	}
	name, err := os.Readlink(descriptorPath(fd))
	if err != nil {
		return "", errnoOf(err)
	}
	if st.Nlink == 0 || !path.IsAbs(name) {
		return "", 0
	}
	return name, 0
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// judgeName decides about making, removing or giving away a name.
func (g *guard) judgeName(c *call, operation string, at location) unix.Errno {
	if g.rules == nil {
		return 0
	}
	name, e := nameOf(at)
	if e != 0 {
		return e
	}
	s, ok := g.rules.mayName(name)
	if ok || g.sharedMemory.mayName(name, at) {
		return 0
	}
	return g.refuseChange(c, operation, name, s)
}

// judgeNew is judgeName for a name that must not be taken.
func (g *guard) judgeNew(c *call, operation string, at location) unix.Errno {
	if g.rules != nil && exists(at) {
		return unix.EEXIST
	}
	return g.judgeName(c, operation, at)
}

func (g *guard) refuseChange(c *call, operation, name string, s PathState) unix.Errno {
	g.reportPath(c, operation, name, s.Rule, s.Cure)
	return unix.EPERM
}

// judgeObject decides about contents and metadata of an object that the guard
// holds. What has no name any more, or never had one, is the command's own.
func (g *guard) judgeObject(c *call, operation string, fd int) unix.Errno {
	name, e := objectName(fd)
	if e != 0 || name == "" {
		return e
	}
	s, ok := g.rules.mayChange(name)
	var st unix.Stat_t
	if ok || unix.Fstat(fd, &st) == nil && g.sharedMemory.has(&st) {
		return 0
	}
	return g.refuseChange(c, operation, name, s)
}

// judge decides about an open of what exists. done says that the call is
// answered, or to be answered with the error.
func (o *opening) judge(st *unix.Stat_t) (done bool, e unix.Errno) {
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK && o.flags&unix.O_NOFOLLOW == 0 {
		return false, 0 // what it leads to is judged
	}
	name, e := nameOf(o.at)
	if e != 0 {
		return true, e
	}
	switch {
	case onProc(o.at.dir) || kind == unix.S_IFCHR || kind == unix.S_IFBLK:
		// Landlock decides, on what the kernel itself finds there.
		o.g.listener.proceed(o.c.id)
		return true, errElsewhere
	case o.flags&unix.O_PATH != 0:
		return false, 0
	case o.flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return true, unix.EEXIST
	}
	return o.judgeAccess(name, st)
}

func (o *opening) judgeAccess(name string, st *unix.Stat_t) (done bool, e unix.Errno) {
	mode := o.flags & unix.O_ACCMODE
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && mode != unix.O_RDONLY && o.flags&unix.O_TMPFILE != unix.O_TMPFILE {
		return true, unix.EISDIR
	}
	if mode != unix.O_RDONLY || o.flags&unix.O_TRUNC != 0 {
		if s, ok := o.g.rules.mayChange(name); !ok && !o.g.sharedMemory.has(st) {
			return true, o.g.refuseChange(o.c, "open", name, s)
		}
	}
	if s, ok := o.g.rules.mayRead(name); !ok && mode != unix.O_WRONLY {
		o.g.reportPath(o.c, "open", name, s.ReadRule, s.Why)
		return true, unix.EACCES
	}
	return false, 0
}

// openAgain opens what a descriptor named through /proc refers to, on a copy
// that the caller cannot exchange.
func (o *opening) openAgain() (int, bool, unix.Errno) {
	held, err := o.g.follow(o.c, o.at.dir, o.at.name)
	if err != nil {
		return -1, false, errnoOf(err)
	}
	defer unix.Close(held)
	var st unix.Stat_t
	if err := unix.Fstat(held, &st); err != nil {
		return -1, false, errnoOf(err)
	}
	if e := o.g.reached(o.c, held); e != 0 {
		return -1, false, e
	}
	kind := st.Mode & unix.S_IFMT
	if name, e := objectName(held); o.g.rules != nil && kind != unix.S_IFREG && kind != unix.S_IFDIR && (kind != unix.S_IFIFO || e != 0 || name == "") {
		o.g.listener.proceed(o.c.id) // nameless pipes and terminals: Landlock decides
		return -1, false, errElsewhere
	}
	if o.at.slash && kind != unix.S_IFDIR {
		return -1, false, unix.ENOTDIR
	}
	if e := o.judgeHeld(held); e != 0 {
		return -1, false, e
	}
	if kind == unix.S_IFDIR && o.flags&unix.O_CREAT != 0 {
		return -1, false, unix.EISDIR
	}
	if kind == unix.S_IFIFO || o.g.rules == nil && kind != unix.S_IFDIR { // which may wait
		if held, e := dup(held); e == 0 {
			o.at.close()
			o.at = location{dir: held}
			return o.openSpecial(isControllingTerminal(&st))
		}
	}
	fd := -1
	e := o.g.withUmask(o.c, func() (err error) {
		fd, err = unix.Open(descriptorPath(held), o.flags&^(unix.O_CREAT|unix.O_EXCL&^o.nameless()|unix.O_NOFOLLOW)|unix.O_CLOEXEC, o.mode)
		return err
	})
	return fd, false, e
}

// judgeHeld decides about the opening of an object that has a name of its own
// beside the one in /proc.
func (o *opening) judgeHeld(held int) unix.Errno {
	changes := o.flags&openChanges != 0
	if changes && o.g.rules != nil {
		if e := o.g.judgeObject(o.c, "open", held); e != 0 {
			return e
		}
	}
	if changes {
		if e := o.g.judgeKept(o.c, "open", held); e != 0 {
			return e
		}
	}
	if o.g.rules != nil && o.flags&(unix.O_ACCMODE|unix.O_PATH) != unix.O_WRONLY {
		if name, e := objectName(held); e != 0 || name != "" && !o.g.rules.at(name).Read {
			return unix.EACCES
		}
	}
	return 0
}

// nameless returns O_EXCL where it says that a nameless file stays so.
func (o *opening) nameless() int {
	if o.flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return unix.O_EXCL
	}
	return 0
}

// linkJudged makes a hard link. The new name must not make a file writable, or
// readable, that was not: so the source is judged like a change, on the very
// object that gets the name.
func (g *guard) linkJudged(c *call, from location, follow int, to location) unix.Errno {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if follow == 0 {
		flags |= unix.O_NOFOLLOW
	}
	held, e := dup(from.dir)
	if from.name != "" {
		unix.Close(held)
		fd, err := unix.Openat(from.dir, from.last(), flags, 0)
		held, e = fd, result(err)
	}
	if e != 0 {
		return e
	}
	defer unix.Close(held)
	if e := g.judgeObject(c, "link", held); e != 0 {
		return e
	}
	if e := g.judgeNew(c, "link", to); e != 0 {
		return e
	}
	var st unix.Stat_t
	if from.name != "" && unix.Fstat(held, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		// A link in /proc cannot stand for a symbolic link. Its text cannot change,
		// and what it leads to is judged at each use.
		return result(unix.Linkat(from.dir, from.last(), to.dir, to.last(), 0))
	}
	return result(unix.Linkat(unix.AT_FDCWD, descriptorPath(held), to.dir, to.last(), unix.AT_SYMLINK_FOLLOW))
}
