package inside

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// maxSockaddr is the size of struct sockaddr_storage.
const maxSockaddr = 128

// socketAddress copies the address argument of connect(2) and bind(2).
func (g *guard) socketAddress(c *call) ([]byte, unix.Errno) {
	return g.addressAt(c, c.args[1], c.int(2))
}

// addressAt copies a socket's address out of the caller's memory.
func (g *guard) addressAt(c *call, at uint64, size int) ([]byte, unix.Errno) {
	if size < 0 || size > maxSockaddr {
		return nil, unix.EINVAL
	}
	raw := make([]byte, max(size, 2))
	if size == 0 {
		return raw[:0], 0
	}
	n, e := g.readMemory(c.pid, at, raw[:size])
	if e != 0 || n < size || !g.listener.valid(c.id) {
		return nil, unix.EFAULT
	}
	return raw[:size], 0
}

// socketPath returns the path in an address of a Unix socket; ok is false for
// unnamed and abstract addresses, which belong to the network namespace.
func socketPath(raw []byte) (name string, ok bool) {
	if len(raw) <= 2 || raw[2] == 0 {
		return "", false
	}
	text, _, _ := bytes.Cut(raw[2:], []byte{0})
	return string(text), true
}

// callersSocket copies the caller's descriptor.
func (g *guard) callersSocket(c *call) (int, error) {
	process, err := openThread(c.pid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, c.int(0), 0)
	if err == unix.EPERM && !g.plain {
		err = g.privileged(func() error {
			var e error
			fd, e = unix.PidfdGetfd(process, c.int(0), 0)
			return e
		})
	}
	if err == nil && !g.listener.valid(c.id) {
		unix.Close(fd)
		return -1, unix.EINTR
	}
	return fd, err
}

// pidfdThread is PIDFD_THREAD of <linux/pidfd.h>, Linux 6.9.
const pidfdThread = unix.O_EXCL

// openThread opens a thread, which may have a descriptor table of its own, or
// outlive the first one. An older kernel knows only that one.
func openThread(tid int) (int, error) {
	fd, err := unix.PidfdOpen(tid, pidfdThread)
	if err != unix.EINVAL {
		return fd, err
	}
	tgid, e := threadGroup(tid)
	if e != 0 {
		return -1, e
	}
	return unix.PidfdOpen(tgid, 0)
}

func socketOption(fd, option int) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	if err != nil {
		return -1
	}
	return n
}

func socketAddressOf(name string) []byte {
	raw := append([]byte{unix.AF_UNIX, 0}, name...)
	return append(raw, 0)
}
