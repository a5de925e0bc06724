package inside

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// recentTasks is how many callers are remembered: calls come in bursts from few
// threads, and each one costs two descriptors.
const recentTasks = 32

// tasks keeps the directories of recent callers in /proc open. Such a directory
// stays that of one thread: when the thread is gone, and even when another one
// has its number, everything in it has vanished.
type tasks struct {
	recent [recentTasks]task
	masks  maskChanges
	buf    [4096]byte // a thread's status is about 1.5 KiB
}

// task is one remembered caller; the zero value is none.
type task struct {
	tid    int
	dir    int // O_PATH descriptor of /proc/TID
	status int // /proc/TID/status, 0 until it is asked for
	alive  int // /proc/TID/oom_score_adj, a file that costs little to read, 0 until it is asked for
	// mask is the file mode mask, if known.
	mask  int
	known bool
}

// at runs step on the caller's entry, once more when what was remembered is a
// thread of the past.
func (t *tasks) at(tid int, step func(*task) error) error {
	k := &t.recent[tid%recentTasks]
	if k.tid == tid {
		if err := step(k); err != unix.ESRCH && err != unix.ENOENT {
			return err
		}
	}
	k.forget()
	dir, err := unix.Open("/proc/"+strconv.Itoa(tid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	k.tid, k.dir = tid, dir
	return step(k)
}

func (k *task) forget() {
	for _, fd := range []int{k.dir, k.status, k.alive} {
		if fd != 0 {
			unix.Close(fd)
		}
	}
	*k = task{}
}

// umask returns the caller's file mode mask. Reading it takes the kernel longer
// than most calls, so it is remembered until somebody changes one.
func (t *tasks) umask(tid int) (int, unix.Errno) {
	t.masks.settle(t.readMask)
	mask := 0
	err := t.at(tid, func(k *task) (err error) {
		if k.known && t.masks.settled() {
			mask = k.mask
			return k.mustLive(t.buf[:])
		}
		mask, err = k.readMask(t.buf[:])
		k.mask, k.known = mask, err == nil && t.masks.settled()
		return err
	})
	switch err {
	case nil:
		return mask, 0
	case unix.EIO:
		return 0, unix.EIO
	default:
		return 0, unix.ESRCH
	}
}

// readMask asks the kernel.
func (t *tasks) readMask(tid int) (mask int, err error) {
	err = t.at(tid, func(k *task) (err error) {
		mask, err = k.readMask(t.buf[:])
		return err
	})
	return mask, err
}

// changeMask notes that the caller is about to change its file mode mask, which
// other threads may share, and processes made by clone(2) with CLONE_FS.
func (t *tasks) changeMask(tid, mask int) {
	for i := range t.recent {
		t.recent[i].known = false
	}
	t.masks.add(tid, mask)
}

// mustLive reports ESRCH when the thread is gone.
func (k *task) mustLive(buf []byte) error {
	if err := k.openFile(&k.alive, "oom_score_adj"); err != nil {
		return err
	}
	_, err := unix.Pread(k.alive, buf[:1], 0)
	return err
}

// readMask reads the file mode mask, see proc_pid_status(5).
func (k *task) readMask(buf []byte) (int, error) {
	if err := k.openFile(&k.status, "status"); err != nil {
		return 0, err
	}
	n, err := unix.Pread(k.status, buf, 0)
	if err != nil {
		return 0, err
	}
	return parseUmask(buf[:n])
}

// openFile opens a file of the thread's directory, once.
func (k *task) openFile(fd *int, name string) error {
	if *fd != 0 {
		return nil
	}
	opened, err := unix.Openat(k.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		*fd = opened
	}
	return err
}

func parseUmask(status []byte) (int, error) {
	_, after, ok := bytes.Cut(status, []byte("\nUmask:\t"))
	line, _, ok2 := bytes.Cut(after, []byte("\n"))
	mask, err := strconv.ParseUint(string(line), 8, 16)
	if !ok || !ok2 || err != nil {
		return 0, unix.EIO
	}
	return int(mask), nil
}

// open opens what descriptor n of the caller refers to, or its working directory
// for AT_FDCWD.
func (t *tasks) open(tid, n, flags int) (fd int, err error) {
	name := "cwd"
	if n != unix.AT_FDCWD {
		name = "fd/" + strconv.Itoa(n)
	}
	err = t.at(tid, func(k *task) error {
		fd, err = unix.Openat(k.dir, name, flags|unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}
