package inside

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A pair of datagram sockets could be aimed at every datagram socket of the host
// with sendto(2). Programs that ask for one want two ends that talk to each
// other and keep messages apart, and a pair of packet sockets does that: its ends
// stay connected, an address given with a message is ignored, and nothing that
// the command does changes that. So the guard makes one in its place.

// serveSocketPair serves socketpair(2) for datagrams.
func (g *guard) serveSocketPair(c *call) {
	g.listener.answer(c.id, 0, g.packetPair(c))
}

func (g *guard) packetPair(c *call) unix.Errno {
	const known = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	flags := c.int(1) &^ socketTypeMask
	if flags&^known != 0 {
		return unix.EINVAL
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|flags, c.int(2))
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	// The kernel, too, looks for room and at the memory first: what the caller got
	// cannot be taken away again.
	if !hasRoom(c.pid, len(fds)) {
		return unix.EMFILE
	}
	memory, e := g.callersMemory(c)
	if e != 0 {
		return e
	}
	defer unix.Close(memory)
	numbers := [8]byte{}
	if e := writeAt(memory, c.args[3], numbers[:]); e != 0 {
		return e
	}
	for i, fd := range fds {
		n, e := g.listener.addFD(c.id, fd, flags&unix.SOCK_CLOEXEC != 0)
		if e != 0 {
			return e
		}
		binary.NativeEndian.PutUint32(numbers[4*i:], uint32(n))
	}
	return writeAt(memory, c.args[3], numbers[:])
}

// hasRoom reports whether more numbers below the limit of open files are free. Where
// that cannot be found out it is for the kernel to say.
func hasRoom(pid, more int) bool {
	var limit unix.Rlimit
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil || unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) != nil {
		return true
	}
	taken := uint64(0)
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && n < limit.Cur {
			taken++
		}
	}
	return taken+uint64(more) <= limit.Cur
}

// callersMemory opens the caller's memory for writing. The descriptor stays that
// of the caller when its number becomes another process's, or a thread's of
// srt-init.
func (g *guard) callersMemory(c *call) (int, unix.Errno) {
	name, fd := fmt.Sprintf("/proc/%d/mem", c.pid), -1
	open := func() (err error) {
		fd, err = unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return err
	}
	err := open()
	if err == unix.EACCES || err == unix.EPERM {
		err = g.privileged(open)
	}
	if err != nil {
		return -1, errnoOf(err)
	}
	if !g.listener.valid(c.id) {
		unix.Close(fd)
		return -1, unix.EINTR
	}
	return fd, 0
}

func writeAt(memory int, address uint64, data []byte) unix.Errno {
	if int64(address) < 0 {
		return unix.EFAULT
	}
	n, err := unix.Pwrite(memory, data, int64(address))
	if err == unix.EIO || err == nil && n < len(data) {
		err = unix.EFAULT
	}
	return result(err)
}

// serveSendTo serves sendto(2) with an address that may be that of a Unix socket.
// The kernel would give such a message to the other end of the pair, which is
// harmless, but not what the caller asked for.
func (g *guard) serveSendTo(c *call) {
	name, ok := g.aimed(c)
	if !ok {
		g.listener.proceed(c.id)
		return
	}
	g.reportPath(c, "sendto", name, "built-in: Unix sockets", "network.allowAllUnixSockets: true")
	g.listener.answer(c.id, 0, unix.EPERM)
}

// aimed reports whether a message is meant for a socket in the file system, and
// for which one.
func (g *guard) aimed(c *call) (name string, ok bool) {
	raw, e := g.addressAt(c, c.args[4], c.int(5))
	if name, ok = socketPath(raw); e != 0 || !ok || binary.NativeEndian.Uint16(raw) != unix.AF_UNIX {
		return "", false
	}
	fd, err := g.callersSocket(c)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	return name, socketOption(fd, unix.SO_DOMAIN) == unix.AF_UNIX && socketOption(fd, unix.SO_TYPE) == unix.SOCK_SEQPACKET
}
