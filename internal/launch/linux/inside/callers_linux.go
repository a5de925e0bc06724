package inside

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// path copies a path argument out of the caller's memory. The copy is what the
// guard decides about and acts on; the original is never looked at again.
func (g *guard) path(c *call, address uint64) (string, unix.Errno) {
	var buf [unix.PathMax]byte
	have := 0
	for have < len(buf) {
		// Never read across a page that may not be there.
		want := min(os.Getpagesize()-int((address+uint64(have))%uint64(os.Getpagesize())), len(buf)-have)
		n, e := g.readMemory(c.pid, address+uint64(have), buf[have:have+want])
		if e != 0 {
			return "", e
		}
		if end := bytes.IndexByte(buf[have:have+n], 0); end >= 0 {
			if !g.listener.valid(c.id) {
				return "", unix.EINTR
			}
			return string(buf[:have+end]), 0
		}
		have += n
		if n < want {
			return "", unix.EFAULT
		}
	}
	return "", unix.ENAMETOOLONG
}

// readMemory reads what the caller itself could read. A process that runs an
// unreadable program is closed even to its own user; only then the capability
// is used.
func (g *guard) readMemory(pid int, address uint64, buf []byte) (int, unix.Errno) {
	n, err := readProcess(pid, address, buf)
	if g.plain && (err == unix.EPERM || err == unix.ENOSYS) {
		n, err = readMemoryFile(pid, address, buf) // a container may refuse the call
	} else if err == unix.EPERM {
		err = g.privileged(func() error {
			var e error
			n, e = readProcess(pid, address, buf)
			return e
		})
	}
	if err != nil {
		return 0, errnoOf(err)
	}
	return n, 0
}

func readProcess(pid int, address uint64, buf []byte) (int, error) {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(buf)}}
	return unix.ProcessVMReadv(pid, local, remote, 0)
}

// readMemoryFile reads through /proc/PID/mem, see proc_pid_mem(5).
func readMemoryFile(pid int, address uint64, buf []byte) (int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := unix.Pread(fd, buf, int64(address))
	if err == unix.EIO {
		err = unix.EFAULT
	}
	return n, err
}

// privileged runs step with the guard's capabilities in effect.
func (g *guard) privileged(step func() error) error {
	if g.plain {
		return step()
	}
	if err := setCapabilities(guardCapabilities, guardCapabilities); err != nil {
		return err
	}
	err := step()
	if drop := setCapabilities(0, guardCapabilities); drop != nil {
		fail(g.control, drop)
	}
	return err
}

func errnoOf(err error) unix.Errno {
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EIO
}

// withUmask runs create under the caller's file mode mask: default ACLs make
// the kernel ignore the mask, so computing the mode here would be wrong.
func (g *guard) withUmask(c *call, create func() error) unix.Errno {
	mask, e := g.tasks.umask(c.pid)
	if e != 0 {
		return e
	}
	if g.plain {
		defer unix.Umask(unix.Umask(mask)) // that of the whole process
	} else if mask != g.mask {
		unix.Umask(mask)
		g.mask = mask
	}
	return result(create())
}

// threadGroup returns the process that the calling thread belongs to.
func threadGroup(tid int) (int, unix.Errno) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, unix.ESRCH
	}
	_, after, _ := bytes.Cut(status, []byte("\nTgid:\t"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	tgid, err := strconv.Atoi(string(line))
	if err != nil {
		return 0, unix.EIO
	}
	return tgid, 0
}
