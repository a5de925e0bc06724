package inside

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// The calls of this file, but for removing and truncating ones, are handed over only
// where no mount holds the file rules. Each one acts on an object that the guard
// itself has open.

// serveChange handles them. It reports whether the call was one of them; it is
// then answered.
func (g *guard) serveChange(c *call, nr uintptr) bool {
	e, ok := g.change(c, nr)
	if !ok && legacyCalls.present {
		e, ok = g.changeLegacy(c, nr)
	}
	if ok {
		g.listener.answer(c.id, 0, e)
	}
	return ok
}

func (g *guard) change(c *call, nr uintptr) (unix.Errno, bool) {
	switch nr {
	case unix.SYS_UNLINKAT:
		return g.unlink(c, c.int(0), c.args[1], c.int(2)), true
	case unix.SYS_TRUNCATE:
		return g.truncate(c, c.args[0], int64(c.args[1])), true
	case unix.SYS_FCHMOD:
		return g.onObject(c, "chmod", c.int(0), 0, unix.AT_EMPTY_PATH, chmodTo(uint32(c.args[1]))), true
	case unix.SYS_FCHMODAT:
		return g.onObject(c, "chmod", c.int(0), c.args[1], 0, chmodTo(uint32(c.args[2]))), true
	case unix.SYS_FCHOWN:
		return g.onObject(c, "chown", c.int(0), 0, unix.AT_EMPTY_PATH, chownTo(c.int(1), c.int(2))), true
	case unix.SYS_FCHOWNAT:
		return g.onObject(c, "chown", c.int(0), c.args[1], c.int(4), chownTo(c.int(2), c.int(3))), true
	case unix.SYS_UTIMENSAT:
		return g.setTimes(c, c.int(0), c.args[1], c.args[2], c.int(3), timeSpecs), true
	}
	return 0, false
}

func (g *guard) changeLegacy(c *call, nr uintptr) (unix.Errno, bool) {
	const here = unix.AT_FDCWD
	switch nr {
	case legacyCalls.unlink:
		return g.unlink(c, here, c.args[0], 0), true
	case legacyCalls.rmdir:
		return g.unlink(c, here, c.args[0], unix.AT_REMOVEDIR), true
	case legacyCalls.chmod:
		return g.onObject(c, "chmod", here, c.args[0], 0, chmodTo(uint32(c.args[1]))), true
	case legacyCalls.chown:
		return g.onObject(c, "chown", here, c.args[0], 0, chownTo(c.int(1), c.int(2))), true
	case legacyCalls.lchown:
		return g.onObject(c, "chown", here, c.args[0], unix.AT_SYMLINK_NOFOLLOW, chownTo(c.int(1), c.int(2))), true
	case legacyCalls.utime:
		return g.setTimes(c, here, c.args[0], c.args[1], 0, timeSeconds), true
	case legacyCalls.utimes:
		return g.setTimes(c, here, c.args[0], c.args[1], 0, timeVals), true
	case legacyCalls.futimes:
		return g.setTimes(c, c.int(0), c.args[1], c.args[2], 0, timeVals), true
	}
	return 0, false
}

func (g *guard) unlink(c *call, dirfd int, path uint64, flags int) unix.Errno {
	if flags&^unix.AT_REMOVEDIR != 0 {
		return unix.EINVAL
	}
	at, e := g.locate(c, dirfd, path)
	if e != 0 {
		return e
	}
	defer at.close()
	if n, ok := g.guarded(at); ok && !n.leads && exists(at) && !held(n, at) {
		if g.rules != nil {
			return g.refuse(c, "unlink", n, unix.EPERM)
		}
		return g.refuse(c, "unlink", n, unix.EBUSY)
	}
	if g.rules != nil && exists(at) {
		if flags == unix.AT_REMOVEDIR && at.name != "." && g.holdsNames(at) {
			return unix.ENOTEMPTY // programs try, and expect that: no violation
		}
		if e := g.judgeName(c, "unlink", at); e != 0 {
			return e
		}
	}
	g.sharedMemory.drop(at)
	return g.noted(c, "unlink", at, result(unix.Unlinkat(at.dir, at.last(), flags)))
}

// holdsNames reports whether it is a directory that the command may look into, and
// that is not empty.
func (g *guard) holdsNames(at location) bool {
	name, e := nameOf(at)
	if e != 0 {
		return false
	}
	if _, ok := g.rules.mayRead(name); !ok {
		return false
	}
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err == nil
}

func (g *guard) truncate(c *call, path uint64, length int64) unix.Errno {
	if length < 0 {
		return unix.EINVAL
	}
	return g.onObject(c, "truncate", unix.AT_FDCWD, path, 0, func(fd int) error {
		if overLimit(c.pid, fd, length) {
			return unix.EFBIG
		}
		return unix.Truncate(descriptorPath(fd), length)
	})
}

// overLimit holds the caller to its RLIMIT_FSIZE, as the kernel does: only what
// grows a file counts, and the caller gets the signal.
func overLimit(tid, fd int, length int64) bool {
	var st unix.Stat_t
	var limit unix.Rlimit
	if unix.Fstat(fd, &st) != nil || length <= st.Size || unix.Prlimit(tid, unix.RLIMIT_FSIZE, nil, &limit) != nil || uint64(length) <= limit.Cur {
		return false
	}
	if tgid, e := threadGroup(tid); e == 0 {
		_ = unix.Tgkill(tgid, tid, unix.SIGXFSZ)
	}
	return true
}

func chmodTo(mode uint32) func(int) error {
	return func(fd int) error { return unix.Chmod(descriptorPath(fd), mode) }
}

func chownTo(uid, gid int) func(int) error {
	return func(fd int) error { return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH) }
}

// onObject resolves a path argument to an object, decides and acts on it.
func (g *guard) onObject(c *call, operation string, dirfd int, path uint64, flags int, act func(fd int) error) unix.Errno {
	fd, e := g.object(c, dirfd, path, flags)
	if e != 0 {
		return e
	}
	defer unix.Close(fd)
	if g.rules != nil {
		if e := g.judgeObject(c, operation, fd); e != 0 {
			return e
		}
	}
	if e := g.judgeKept(c, operation, fd); e != 0 {
		return e
	}
	return g.noted(c, operation, location{dir: fd}, result(act(fd)))
}

// object opens what a path argument, or a descriptor alone, means.
func (g *guard) object(c *call, dirfd int, address uint64, flags int) (int, unix.Errno) {
	path := ""
	if address == 0 && flags&unix.AT_EMPTY_PATH == 0 {
		return -1, unix.EFAULT
	}
	if address != 0 {
		var e unix.Errno
		if path, e = g.path(c, address); e != 0 {
			return -1, e
		}
	}
	if path == "" {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return -1, unix.ENOENT
		}
		return g.descriptor(c, dirfd, 0)
	}
	return g.objectAt(c, dirfd, path, flags)
}

// objectAt opens what a path means for the caller, links followed unless the
// flags say otherwise.
func (g *guard) objectAt(c *call, dirfd int, path string, flags int) (int, unix.Errno) {
	base, e := g.base(c, dirfd, path)
	if e != 0 {
		return -1, e
	}
	defer g.release(base)
	at, e := g.locateFrom(c, base, path)
	for range maxSymlinks + 1 {
		if e != 0 {
			return -1, e
		}
		if flags&unix.AT_SYMLINK_NOFOLLOW != 0 && !at.slash || !isSymlink(at) {
			return openLocated(at, unix.O_NOFOLLOW)
		}
		if onProc(at.dir) && !isProcRoot(at.dir) {
			return g.followed(c, at)
		}
		at, e = g.followLast(c, at)
	}
	at.close()
	return -1, unix.ELOOP
}

// followed opens what a link of /proc leads to.
func (g *guard) followed(c *call, at location) (int, unix.Errno) {
	defer at.close()
	fd, err := g.follow(c, at.dir, at.last())
	e := result(err)
	if e == 0 {
		if e = g.reached(c, fd); e != 0 {
			unix.Close(fd)
		}
	}
	return fd, e
}

func openLocated(at location, flags int) (int, unix.Errno) {
	defer at.close()
	fd, err := unix.Openat(at.dir, at.last(), unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	return fd, result(err)
}

// descriptor opens what one of the caller's descriptors, or its working
// directory, refers to.
func (g *guard) descriptor(c *call, n, flags int) (int, unix.Errno) {
	if n != unix.AT_FDCWD && n < 0 {
		return -1, unix.EBADF
	}
	fd, err := g.tasks.open(c.pid, n, flags)
	if err == unix.EACCES || err == unix.EPERM {
		err = g.privileged(func() error {
			var e error
			fd, e = g.tasks.open(c.pid, n, flags)
			return e
		})
	}
	if err == unix.ENOENT && n != unix.AT_FDCWD {
		err = unix.EBADF
	}
	if err != nil {
		return -1, errnoOf(err)
	}
	e := unix.EINTR
	if g.listener.valid(c.id) {
		e = g.reached(c, fd)
	}
	if e != 0 {
		unix.Close(fd)
		return -1, e
	}
	return fd, 0
}

// The forms in which calls give two times. Each function reads one time.
type timeForm struct {
	size int // of one time
	read func([]byte) unix.Timespec
}

var (
	timeSpecs   = timeForm{16, func(b []byte) unix.Timespec { return timespec(b, b[8:], 1) }}
	timeVals    = timeForm{16, func(b []byte) unix.Timespec { return timespec(b, b[8:], 1000) }}
	timeSeconds = timeForm{8, func(b []byte) unix.Timespec { return timespec(b, make([]byte, 8), 1) }}
)

func timespec(seconds, fraction []byte, scale int64) unix.Timespec {
	var t unix.Timespec
	t.Sec = int64(binary.LittleEndian.Uint64(seconds))
	t.Nsec = int64(binary.LittleEndian.Uint64(fraction)) * scale
	return t
}

// setTimes serves utimensat(2) and its elders. A path of null means the
// descriptor itself.
func (g *guard) setTimes(c *call, dirfd int, path, times uint64, flags int, form timeForm) unix.Errno {
	var values []unix.Timespec
	if times != 0 {
		buf := make([]byte, 2*form.size)
		n, e := g.readMemory(c.pid, times, buf)
		if e != 0 || n < len(buf) || !g.listener.valid(c.id) {
			return unix.EFAULT
		}
		values = []unix.Timespec{form.read(buf), form.read(buf[form.size:])}
	}
	if len(values) == 2 && values[0].Nsec == unix.UTIME_OMIT && values[1].Nsec == unix.UTIME_OMIT {
		return 0 // whatever the path is
	}
	if path == 0 {
		flags |= unix.AT_EMPTY_PATH
	}
	return g.onObject(c, "utimens", dirfd, path, flags, func(fd int) error {
		if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
			return setTimesOf(fd, "", values, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
		}
		return setTimesOf(unix.AT_FDCWD, descriptorPath(fd), values, 0)
	})
}

func setTimesOf(dirfd int, path string, values []unix.Timespec, flags int) error {
	if values == nil {
		values = []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	}
	return unix.UtimesNanoAt(dirfd, path, values, flags)
}
