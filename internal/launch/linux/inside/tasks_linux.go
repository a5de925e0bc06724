package inside

import (
	"bytes"
	"fmt"
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
	buf    [4096]byte // a thread's status is about 1.5 KiB
}

// task is one remembered caller; the zero value is none.
type task struct {
	tid    int
	dir    int // O_PATH descriptor of /proc/TID
	status int // /proc/TID/status, 0 until it is asked for
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
	if k.tid != 0 {
		unix.Close(k.dir)
	}
	if k.status != 0 {
		unix.Close(k.status)
	}
	*k = task{}
}

// umask returns the caller's file mode mask, see proc_pid_status(5).
func (t *tasks) umask(tid int) (int, unix.Errno) {
	mask := 0
	err := t.at(tid, func(k *task) error {
		if k.status == 0 {
			fd, err := unix.Openat(k.dir, "status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			k.status = fd
		}
		n, err := unix.Pread(k.status, t.buf[:], 0)
		if err != nil {
			return err
		}
		mask, err = parseUmask(t.buf[:n])
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
		name = fmt.Sprintf("fd/%d", n)
	}
	err = t.at(tid, func(k *task) error {
		fd, err = unix.Openat(k.dir, name, flags|unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}
