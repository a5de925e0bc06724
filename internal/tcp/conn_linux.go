// Package tcp has TCP connections for a filter that makes many short ones.
package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection like net.TCPConn. The package net asks the kernel for
// both addresses of each, sets four options that notice a machine which is gone, and
// has a goroutine wait for the end of each dial. For a short connection within this
// machine that is a large part of what it costs.
type Conn struct {
	f   *os.File
	raw syscall.RawConn
	to  netip.AddrPort // that was dialed
}

// SyscallConn gives the socket without a look whether it is open, see net.TCPConn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// newConn takes a descriptor that does not block.
func newConn(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "tcp")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("using a TCP connection: %w", err)
	}
	return &Conn{f: f, raw: raw}, nil
}

// Read reads what there is.
func (c *Conn) Read(p []byte) (n int, err error) {
	var failed error
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = TryRead(int(fd), p)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, c.explain("read", err)
	case failed != nil:
		return 0, c.explain("read", os.NewSyscallError("read", failed))
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes everything.
func (c *Conn) Write(p []byte) (n int, err error) {
	var failed error
	err = c.raw.Write(func(fd uintptr) bool {
		for failed = nil; n < len(p) && failed == nil; {
			var m int
			m, failed = tryWrite(int(fd), p[n:])
			n += m
		}
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return n, c.explain("write", err)
	case failed != nil:
		return n, c.explain("write", os.NewSyscallError("write", failed))
	}
	return n, nil
}

// explain makes an error what the package net makes of it.
func (c *Conn) explain(op string, err error) error {
	var call *os.SyscallError
	if !errors.As(err, &call) && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

func (c *Conn) Close() error                       { return c.f.Close() }
func (c *Conn) SetDeadline(t time.Time) error      { return c.f.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.f.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.f.SetWriteDeadline(t) }
func (c *Conn) LocalAddr() net.Addr                { return net.TCPAddrFromAddrPort(c.address(syscall.Getsockname)) }

// RemoteAddr remembers what was dialed: logs need it after the end.
func (c *Conn) RemoteAddr() net.Addr {
	if c.to.IsValid() {
		return net.TCPAddrFromAddrPort(c.to)
	}
	return net.TCPAddrFromAddrPort(c.address(syscall.Getpeername))
}

// address is the zero value when the connection is closed or broken.
func (c *Conn) address(ask func(int) (syscall.Sockaddr, error)) netip.AddrPort {
	var found netip.AddrPort
	_ = c.raw.Control(func(fd uintptr) {
		if sa, err := ask(int(fd)); err == nil {
			found = addrPort(sa)
		}
	})
	return found
}

func addrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error {
	return c.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetLinger is that of net.TCPConn: with 0, Close resets the connection.
func (c *Conn) SetLinger(seconds int) error {
	return c.control(func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(seconds)})
	})
}

func (c *Conn) control(f func(fd int) error) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
