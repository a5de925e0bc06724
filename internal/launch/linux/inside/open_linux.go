package inside

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// openRetries bounds how often an open starts over because somebody exchanged
// the object between two looks at it.
const openRetries = 64

// open serves open(2), openat(2) and creat(2) with O_CREAT.
func (g *guard) open(c *call, dirfd int, path uint64, flags int, mode uint32) {
	if g.reads != nil && flags&openChanges == 0 {
		g.traceRead(c, dirfd, path, flags)
		g.listener.proceed(c.id)
		return
	}
	at, e := location{}, checkOpenFlags(flags)
	if e == 0 {
		at, e = g.locate(c, dirfd, path)
	}
	if e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	o := &opening{g: g, c: c, at: at, flags: flags, mode: mode}
	fd, e := o.run()
	if e == errElsewhere {
		return // another thread, or the kernel, answers
	}
	if e == unix.EROFS && g.rules == nil && o.blank() {
		e = unix.EACCES
	}
	if e != 0 {
		g.noted(c, "open", o.at, e)
	}
	o.finish(fd, e)
	o.at.close()
}

// checkOpenFlags asks the kernel about flags that it may refuse before it looks
// at anything else. An empty path gives another error.
func checkOpenFlags(flags int) unix.Errno {
	if flags&unix.O_TMPFILE == 0 { // which has the bit of O_DIRECTORY
		return 0
	}
	if _, err := unix.Openat(-1, "", flags, 0); err == unix.EINVAL {
		return unix.EINVAL
	}
	return 0
}

// errElsewhere says that somebody else answers the call.
const errElsewhere = unix.Errno(0xffff)

// opening is one open that may create its file.
type opening struct {
	g     *guard
	c     *call
	at    location
	flags int
	mode  uint32
	links int
	// created says that the file at the location was not there before.
	created bool
}

func (o *opening) finish(fd int, e unix.Errno) {
	// Nothing of srt-init's own should have come this far. Its memory would be
	// everything.
	if e == 0 && !o.created && onProc(fd) {
		if e = o.g.judgeEntry(o.c, fd); e != 0 {
			unix.Close(fd)
		}
	}
	if e == 0 {
		if e = o.g.listener.giveFD(o.c, fd, o.flags&unix.O_CLOEXEC != 0); e != 0 {
			o.undo(fd)
			unix.Close(fd)
		}
	}
	if e != 0 {
		o.g.listener.answer(o.c.id, 0, e)
	}
}

// undo removes a file that was made for a caller who has no room for its
// descriptor: the kernel looks for room first.
func (o *opening) undo(fd int) {
	var made, there unix.Stat_t
	if o.created && unix.Fstat(fd, &made) == nil && unix.Fstatat(o.at.dir, o.at.name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		made.Dev == there.Dev && made.Ino == there.Ino {
		_ = unix.Unlinkat(o.at.dir, o.at.name, 0)
	}
}

// blank reports whether the file at the location is the one that stands for files
// which nobody may open, see makeBlank. That its mount is read-only is not what
// keeps anybody out, but the kernel says so first to those who want it truncated.
func (o *opening) blank() bool {
	var st unix.Stat_t
	return unix.Fstatat(o.at.dir, o.at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode == unix.S_IFREG && st.Size == 0
}

// mustCreate reports whether the open must not find anything. Alone, O_EXCL
// means nothing.
func (o *opening) mustCreate() bool {
	const both = unix.O_CREAT | unix.O_EXCL
	return o.flags&both == both
}

// run opens what is there, or creates it. Each round acts on what the previous
// look saw and starts over when that is no longer true.
func (o *opening) run() (int, unix.Errno) {
	for range openRetries {
		if o.flags&unix.O_CREAT != 0 && o.at.slash && !o.at.dots() {
			if o.at.closed() {
				return -1, unix.EACCES
			}
			return -1, unix.EISDIR
		}
		if n, ok := o.g.guarded(o.at); ok && !held(n, o.at) {
			if e := o.refused(n); e != 0 {
				return -1, e
			}
		}
		fd, again, e := o.attempt()
		if !again {
			return fd, e
		}
	}
	return -1, unix.EAGAIN
}

// refused judges an open at a protected name. Reading an existing object is no
// creation and is left to the mount.
func (o *opening) refused(n guarded) unix.Errno {
	if n.there && isSymlink(o.at) {
		return 0 // what it leads to is judged
	}
	missing := o.at.look(false)
	if missing == 0 && o.flags&(unix.O_ACCMODE|unix.O_TRUNC) == unix.O_RDONLY {
		return 0
	}
	if missing != 0 && o.flags&unix.O_CREAT == 0 {
		return missing // a process of the host may make it the next moment
	}
	return o.g.refuse(o.c, "open", n, unix.EROFS)
}

func (o *opening) attempt() (fd int, again bool, e unix.Errno) {
	if o.g.rules == nil && o.mustCreate() {
		return o.create() // what is there need not be looked at
	}
	var st unix.Stat_t
	err := unix.Fstatat(o.at.dir, o.at.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return o.create()
	}
	if err != nil {
		return -1, false, errnoOf(err)
	}
	if o.g.rules != nil {
		if done, e := o.judge(&st); done {
			return -1, false, e
		}
	}
	if o.leaveToKernel(&st) {
		o.g.listener.proceed(o.c.id)
		return -1, false, errElsewhere
	}
	if o.mustCreate() {
		return -1, false, unix.EEXIST
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFDIR && o.flags&unix.O_CREAT != 0:
		return -1, false, unix.EISDIR
	case kind == unix.S_IFREG, kind == unix.S_IFDIR, o.g.rules == nil && neverWaits(&st):
		if o.flags&unix.O_TRUNC != 0 && st.Size > 0 && full(o.c.pid) {
			return -1, false, unix.EMFILE
		}
		return o.openPlain()
	case kind == unix.S_IFLNK:
		return o.openLink()
	default:
		return o.openHeld(&st)
	}
}

const memMajor = 1 // of <linux/major.h>

// neverWaits recognises the devices of memory, such as /dev/null.
func neverWaits(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(st.Rdev) == memMajor
}

// leaveToKernel reports whether the kernel has to open what /proc holds: the maps
// of a new user namespace are written with the rights of who opened them. It reads
// the path once more, which may be another one by then, so only settings that give
// the denies up allow that.
func (o *opening) leaveToKernel(st *unix.Stat_t) bool {
	return o.g.rules == nil && o.g.userNamespace != "" && o.flags&unix.O_CREAT == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG && onProc(o.at.dir)
}

// create makes the file. O_EXCL keeps the guard from opening something that
// appeared meanwhile and might block.
func (o *opening) create() (int, bool, unix.Errno) {
	if o.flags&unix.O_CREAT == 0 {
		return -1, false, unix.ENOENT
	}
	if e := o.g.judgeName(o.c, "open", o.at); e != 0 {
		return -1, false, e
	}
	if e := o.g.arrive(o.c, "open", o.at, false); e != 0 {
		return -1, false, e
	}
	fd := -1
	e := o.g.withUmask(o.c, func() error {
		var err error
		fd, err = unix.Openat(o.at.dir, o.at.last(), o.flags|unix.O_EXCL|unix.O_CLOEXEC, o.mode)
		return err
	})
	if e == unix.EEXIST && o.flags&unix.O_EXCL == 0 {
		return -1, true, 0
	}
	o.created = e == 0
	if e == unix.EROFS {
		fd, e = o.g.creator.create(o)
	}
	if e == 0 && o.g.rules != nil {
		o.g.sharedMemory.add(fd)
	}
	return fd, false, e
}

// full reports whether the caller has no room for another descriptor. It is
// asked where finding out later would be too late. The size of the directory
// is the number of its entries since Linux 6.2, and zero before.
func full(pid int) bool {
	var st unix.Stat_t
	var limit unix.Rlimit
	return unix.Stat(fmt.Sprintf("/proc/%d/fd", pid), &st) == nil && st.Size > 0 &&
		unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) == nil && uint64(st.Size) >= limit.Cur
}

// openPlain opens a file or directory. O_NONBLOCK means nothing to them and
// keeps the guard from hanging if a FIFO takes their place; the caller's own
// choice is restored.
func (o *opening) openPlain() (int, bool, unix.Errno) {
	fd, err := o.openUnfollowed()
	switch {
	case err == unix.ELOOP && (o.flags&unix.O_NOFOLLOW == 0 || o.at.slash), err == unix.ENXIO, err == unix.ENOENT && o.flags&unix.O_CREAT != 0:
		return -1, true, 0
	case err == unix.EAGAIN && o.flags&unix.O_NONBLOCK == 0:
		return o.openHeld(nil) // somebody must give a lease up first
	case err != nil:
		return -1, false, errnoOf(err)
	}
	if o.flags&(unix.O_NONBLOCK|unix.O_PATH) == 0 {
		if now, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, now&^unix.O_NONBLOCK)
		}
	}
	return fd, false, 0
}

// openUnfollowed opens without following a link and without O_NOFOLLOW, which
// fcntl(2) would show to the caller.
func (o *opening) openUnfollowed() (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(o.flags&openFlags | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	open := func() error {
		fd, err = unix.Openat2(o.at.dir, o.at.last(), &how)
		return err
	}
	// The file is there. What else O_CREAT means is that in a directory for
	// everybody some files of others are closed, see fs.protected_regular.
	creating := o.flags&unix.O_CREAT != 0 && o.at.sticky()
	if !creating {
		how.Flags &^= unix.O_CREAT
	}
	if !creating && o.flags&unix.O_TMPFILE != unix.O_TMPFILE {
		return fd, open()
	}
	how.Mode = uint64(o.mode & 0o7777)
	if e := o.g.withUmask(o.c, open); e != 0 {
		return -1, e
	}
	return fd, nil
}

// openFlags are those that open(2) knows. It ignores others, openat2(2) does not.
const openFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_NOCTTY | unix.O_TRUNC | unix.O_APPEND | unix.O_NONBLOCK | unix.O_SYNC |
	unix.O_DSYNC | unix.O_ASYNC | unix.O_DIRECT | unix.O_LARGEFILE | unix.O_NOFOLLOW | unix.O_NOATIME | unix.O_CLOEXEC | unix.O_PATH | unix.O_TMPFILE

// openLink follows the link unless the caller forbids it.
func (o *opening) openLink() (int, bool, unix.Errno) {
	if o.flags&unix.O_NOFOLLOW != 0 && !o.at.slash {
		return o.openPlain()
	}
	if o.links++; o.links > maxSymlinks {
		return -1, false, unix.ELOOP
	}
	if onProc(o.at.dir) && !isProcRoot(o.at.dir) {
		return o.openAgain()
	}
	next, e := o.g.followLast(o.c, o.at)
	if e != 0 {
		o.at.dir = -1
		return -1, false, e
	}
	o.at = next
	return -1, true, 0
}

// openHeld opens what may wait for somebody. It takes hold of the object first:
// a link in its place would be followed with srt-init's own idea of /proc/self,
// and to itself srt-init may open everything. seen is what the object was.
func (o *opening) openHeld(seen *unix.Stat_t) (int, bool, unix.Errno) {
	held, err := unix.Openat(o.at.dir, o.at.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err == unix.ENOENT, errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(held, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK || seen != nil && (st.Dev != seen.Dev || st.Ino != seen.Ino) {
		unix.Close(held)
		return -1, true, 0
	}
	if o.at.slash && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(held)
		return -1, false, unix.ENOTDIR
	}
	o.at.close()
	o.at = location{dir: held}
	return o.openSpecial(isControllingTerminal(&st))
}

// openSpecial opens a held object, or a descriptor named through /proc, on a
// thread of its own, because such an open may wait for somebody.
func (o *opening) openSpecial(terminal bool) (int, bool, unix.Errno) {
	select {
	case o.g.special <- struct{}{}:
	default:
		return -1, false, unix.EAGAIN
	}
	go func() {
		defer func() { <-o.g.special }()
		runtime.LockOSThread() // the thread ends with the goroutine
		fd, e := -1, unix.EPERM
		if blockSignals() == nil && setCapabilities(0, 0) == nil {
			fd, e = o.waitOpen(terminal)
		}
		o.finish(fd, e)
		o.at.close()
	}()
	return -1, false, errElsewhere
}

func (o *opening) waitOpen(terminal bool) (fd int, e unix.Errno) {
	flags := o.flags&^(unix.O_CREAT|unix.O_EXCL) | unix.O_CLOEXEC | unix.O_NOCTTY
	if terminal {
		return openCallersTerminal(o.c.pid, flags)
	}
	e = o.g.listener.waitFor(o.c, func() unix.Errno {
		var err error
		if o.at.name == "" { // the location holds the object itself
			fd, err = unix.Open(descriptorPath(o.at.dir), flags&^unix.O_NOFOLLOW, 0)
		} else {
			fd, err = unix.Openat(o.at.dir, o.at.last(), flags, 0)
		}
		return result(err)
	})
	if e == 0 && o.flags&unix.O_CREAT != 0 && isDirectory(fd) {
		unix.Close(fd)
		e = unix.EISDIR
	}
	return fd, e
}

func isDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
