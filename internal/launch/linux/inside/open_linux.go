package inside

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

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
	at, e := g.locate(c, dirfd, path)
	if e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	o := &opening{g: g, c: c, at: at, flags: flags, mode: mode}
	fd, e := o.run()
	if e == errElsewhere {
		return // another thread, or the kernel, answers
	}
	if e != 0 {
		g.noted(c, "open", o.at, e)
	}
	o.at.close()
	o.finish(fd, e)
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
}

func (o *opening) finish(fd int, e unix.Errno) {
	if e != 0 {
		o.g.listener.answer(o.c.id, 0, e)
		return
	}
	o.g.listener.answerFD(o.c.id, fd, o.flags&unix.O_CLOEXEC != 0)
	unix.Close(fd)
}

// run opens what is there, or creates it. Each round acts on what the previous
// look saw and starts over when that is no longer true.
func (o *opening) run() (int, unix.Errno) {
	for range openRetries {
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
func (o *opening) refused(n GuardedName) unix.Errno {
	there := exists(o.at)
	if there && o.flags&(unix.O_ACCMODE|unix.O_TRUNC) == unix.O_RDONLY || !there && o.flags&unix.O_CREAT == 0 {
		return 0
	}
	return o.g.refuse(o.c, "open", n, unix.EROFS)
}

func (o *opening) attempt() (fd int, again bool, e unix.Errno) {
	const exclusive = unix.O_CREAT | unix.O_EXCL
	if o.g.rules == nil && o.flags&(exclusive|unix.O_PATH) == exclusive {
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
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return o.openPlain()
	case unix.S_IFLNK:
		return o.openLink()
	default:
		if o.g.rules != nil {
			return o.openPipe()
		}
		return o.openSpecial(st.Mode&unix.S_IFMT == unix.S_IFIFO, isControllingTerminal(&st))
	}
}

// leaveToKernel reports whether nothing is gained by opening here. Without
// O_CREAT no name can appear, whatever the caller changes meanwhile, and mounts
// hold what exists; devices, and what /proc holds, mean something only to the
// caller.
func (o *opening) leaveToKernel(st *unix.Stat_t) bool {
	if o.g.rules != nil || o.flags&unix.O_CREAT != 0 {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	return onProc(o.at.dir) || kind != unix.S_IFREG && kind != unix.S_IFDIR && kind != unix.S_IFLNK
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
	fd := -1
	e := o.g.withUmask(o.c, func() error {
		var err error
		fd, err = unix.Openat(o.at.dir, o.at.last(), o.flags|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, o.mode)
		return err
	})
	if e == unix.EEXIST && o.flags&unix.O_EXCL == 0 {
		return -1, true, 0
	}
	if e == unix.EROFS {
		fd, e = o.g.creator.create(o)
	}
	if e == 0 && o.g.rules != nil {
		o.g.sharedMemory.add(fd)
	}
	return fd, false, e
}

// openPlain opens a file or directory. O_NONBLOCK means nothing to them and
// keeps the guard from hanging if a FIFO takes their place; the caller's own
// choice is restored.
func (o *opening) openPlain() (int, bool, unix.Errno) {
	fd, err := unix.Openat(o.at.dir, o.at.last(), o.flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, o.mode)
	if err == unix.ELOOP && o.flags&unix.O_NOFOLLOW == 0 || err == unix.ENXIO {
		return -1, true, 0
	}
	if err != nil {
		return -1, false, errnoOf(err)
	}
	if o.flags&(unix.O_NONBLOCK|unix.O_PATH) == 0 {
		if now, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, now&^unix.O_NONBLOCK)
		}
	}
	return fd, false, 0
}

// openLink follows the link unless the caller forbids it.
func (o *opening) openLink() (int, bool, unix.Errno) {
	if o.flags&unix.O_EXCL != 0 && o.flags&unix.O_PATH == 0 {
		return -1, false, unix.EEXIST
	}
	if o.flags&unix.O_NOFOLLOW != 0 {
		return o.openPlain()
	}
	if o.links++; o.links > maxSymlinks {
		return -1, false, unix.ELOOP
	}
	if onProc(o.at.dir) && !isProcRoot(o.at.dir) {
		if o.g.rules != nil {
			return o.openAgain()
		}
		return o.openSpecial(false, false)
	}
	next, e := o.g.followLast(o.c, o.at)
	if e != 0 {
		o.at.dir = -1
		return -1, false, e
	}
	o.at = next
	return -1, true, 0
}

// openSpecial opens devices, FIFOs and descriptors named through /proc on a
// thread of their own, because such an open may wait for somebody.
func (o *opening) openSpecial(fifo, terminal bool) (int, bool, unix.Errno) {
	if o.flags&unix.O_EXCL != 0 && o.flags&unix.O_PATH == 0 {
		return -1, false, unix.EEXIST
	}
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
			fd, e = o.waitOpen(fifo, terminal)
		}
		o.at.close()
		o.finish(fd, e)
	}()
	return -1, false, errElsewhere
}

func (o *opening) waitOpen(fifo, terminal bool) (int, unix.Errno) {
	flags := o.flags&^(unix.O_CREAT|unix.O_EXCL) | unix.O_CLOEXEC | unix.O_NOCTTY
	if terminal {
		return openCallersTerminal(o.c.pid, flags)
	}
	if !fifo {
		fd, err := unix.Openat(o.at.dir, o.at.last(), flags, 0)
		return fd, result(err)
	}
	for {
		// A writer of a FIFO waits for a reader. Waiting here must end with the caller.
		fd, err := o.openFIFO(flags | unix.O_NONBLOCK)
		if err == nil && o.flags&unix.O_NONBLOCK == 0 {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, o.flags&unix.O_APPEND)
		}
		if err != unix.ENXIO || o.flags&unix.O_NONBLOCK != 0 {
			return fd, result(err)
		}
		if !o.g.listener.valid(o.c.id) {
			return -1, unix.EINTR
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (o *opening) openFIFO(flags int) (int, error) {
	if o.at.name == "" { // the location holds the FIFO itself
		return unix.Open(descriptorPath(o.at.dir), flags&^unix.O_NOFOLLOW, 0)
	}
	return unix.Openat(o.at.dir, o.at.last(), flags, 0)
}

// isControllingTerminal recognises /dev/tty, which means another terminal for
// each session.
func isControllingTerminal(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(st.Rdev) == 5 && unix.Minor(st.Rdev) == 0
}

// openCallersTerminal opens the caller's controlling terminal: srt-init's own
// for the session both were started in, otherwise the pseudo-terminal of the
// sandbox that the caller's session belongs to.
func openCallersTerminal(pid, flags int) (int, unix.Errno) {
	theirs, err1 := unix.Getsid(pid)
	ours, err2 := unix.Getsid(0)
	if err1 == nil && err2 == nil && theirs == ours {
		fd, err := unix.Open("/dev/tty", flags, 0)
		return fd, result(err)
	}
	minor, ok := sessionTerminal(pid)
	if !ok {
		return -1, unix.ENXIO
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", minor), flags, 0)
	return fd, result(err)
}

// sessionTerminal reads field 7 of /proc/PID/stat, see proc_pid_stat(5), and
// returns the number of the pseudo-terminal.
func sessionTerminal(pid int) (uint32, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	_, after, ok := strings.Cut(string(stat), ") ")
	for strings.Contains(after, ") ") {
		_, after, _ = strings.Cut(after, ") ")
	}
	fields := strings.Fields(after)
	if !ok || len(fields) < 5 {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[4], 10, 32)
	if err != nil || n == 0 {
		return 0, false
	}
	dev := uint32(int32(n))
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	return minor + (major-136)<<8, major >= 136 && major <= 143
}
