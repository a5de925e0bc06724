package proxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// listen waits until the client leaves or the watch ends, and reports whether it is
// still there. Nothing is read for that: what a client sends before its time waits
// in the kernel, so that thousands of them cost this process nothing.
func (c *client) listen(early []byte, how watched) ([]byte, bool) {
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return c.listenByReading(early, how)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return early, false
	}
	err = raw.Read(func(fd uintptr) bool { return hasLeft(int(fd), len(early), how) })
	return early, isTimeout(err)
}

// breaksOff waits until the connection is broken, which a half-closed one is not, or
// its read deadline; it reports the former.
func (c *client) breaksOff() bool {
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	return raw.Read(func(fd uintptr) bool { return hasLeft(int(fd), 0, watchDirect) }) == nil
}

// hasLeft looks at a connection that early bytes were read from.
func hasLeft(fd, early int, how watched) bool {
	const broken = unix.POLLHUP | unix.POLLERR
	ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	for _, err := unix.Poll(ask, 0); err != nil; _, err = unix.Poll(ask, 0) {
		if err != unix.EINTR {
			return true
		}
	}
	switch seen := ask[0].Revents; {
	case seen&broken != 0:
		return true
	case seen&unix.POLLRDHUP != 0:
		return how != watchDirect
	case how != watchTunnel:
		return false
	}
	waiting, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	return err != nil || early+waiting > maxEarly
}
