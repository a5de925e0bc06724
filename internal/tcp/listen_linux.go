package tcp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listener is a listening socket like net.TCPListener. Its clients are taken to be on
// this machine: nothing watches whether theirs is still there.
type Listener struct {
	f    *os.File
	raw  syscall.RawConn
	addr net.Addr
}

// FileListener returns the listener that a listening socket is. It takes the
// descriptor, also when it fails.
func FileListener(fd int) (*Listener, error) {
	sa, err := syscall.Getsockname(fd)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil { // what is accepted has this option, too
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("using a listening socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "tcp")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("using a listening socket: %w", err)
	}
	return &Listener{f: f, raw: raw, addr: net.TCPAddrFromAddrPort(addrPort(sa))}, nil
}

// Accept waits for the next connection, which is a [Conn].
func (l *Listener) Accept() (net.Conn, error) {
	var fd int
	var failed error
	err := l.raw.Read(func(listener uintptr) bool {
		fd, failed = accept(int(listener))
		return failed != unix.EAGAIN
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err != nil:
		err = net.ErrClosed
	case failed != nil:
		err = os.NewSyscallError("accept4", failed)
	default:
		return newConn(fd)
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
}

// Addr is the address that the socket listens on.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close ends Accept.
func (l *Listener) Close() error {
	if err := l.f.Close(); err != nil {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	return nil
}
