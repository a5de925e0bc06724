package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Dial connects to an address and a port, or to a name and a port as the package net
// does.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || to.Addr().Zone() != "" {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	// As in the package net: a port of this machine where nothing listens can be
	// connected to itself, and the kernel may say once too often that no port is free.
	const attempts = 3
	var conn net.Conn
	for range attempts {
		conn, err = dialOnce(ctx, to)
		if !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

func dialOnce(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := newSocket(to.Addr())
	if err != nil {
		return nil, err
	}
	sa := newSockaddr(to)
	err = connect(fd, sa)
	if err == unix.EINPROGRESS || err == unix.EINTR {
		err = connect(fd, sa) // within this machine it stands by now
	}
	if err != nil && err != unix.EALREADY {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	c, failed := newConn(fd)
	if failed != nil {
		return nil, failed
	}
	c.to = to
	if err != nil {
		err = c.await(ctx, sa)
	}
	if err == nil && c.isSelf(to) {
		err = os.NewSyscallError("connect", unix.EADDRNOTAVAIL)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// newSocket returns a socket for connections to an address. A machine that is gone
// without a word is noticed, as by default in the package net; this one is not gone.
func newSocket(to netip.Addr) (int, error) {
	family := unix.AF_INET
	if to.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil && !to.IsLoopback() {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9))
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

func newSockaddr(to netip.AddrPort) sockaddr {
	var wire [2]byte
	binary.BigEndian.PutUint16(wire[:], to.Port())
	port := binary.NativeEndian.Uint16(wire[:])
	if to.Addr().Is6() {
		return sockaddr{unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: to.Addr().As16()}, unix.SizeofSockaddrInet6}
	}
	a := sockaddr{unix.RawSockaddrInet6{Family: unix.AF_INET, Port: port}, unix.SizeofSockaddrInet4}
	(*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw)).Addr = to.Addr().As4()
	return a
}

// await waits for a connection that is being made.
func (c *Conn) await(ctx context.Context, sa sockaddr) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) })
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for failed = unix.EINTR; failed == unix.EINTR; {
			failed = connect(int(fd), sa)
		}
		return failed != unix.EALREADY && failed != unix.EINPROGRESS
	})
	switch {
	case !stop():
		return ctx.Err() // the deadline has passed, whatever the rest says
	case err != nil:
		return err
	case failed == unix.EISCONN:
		return nil
	}
	return os.NewSyscallError("connect", failed)
}

// isSelf recognises a connection that met itself.
func (c *Conn) isSelf(to netip.AddrPort) bool {
	return c.address(syscall.Getsockname) == netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
}
