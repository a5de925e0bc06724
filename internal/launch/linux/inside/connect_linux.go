package inside

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Without a network namespace the guard makes the command's connections itself,
// on its own copy of the address, and only to the proxies of this run. It announces
// the local end of each one to the host half, which serves nobody else on these
// listeners. That comes after the connection: then nobody else can have this end.

// connectForward serves connect(2) there.
func (g *guard) connectForward(c *call) {
	raw, e := g.socketAddress(c)
	var address unix.Sockaddr
	if e == 0 {
		address, e = parseSockaddr(raw)
	}
	if e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	if address == nil { // a Unix socket, which the settings allow
		g.listener.proceed(c.id)
		return
	}
	target, e := g.forward(address)
	if e != 0 {
		if to, ok := destination(raw); ok {
			g.tellMissed(to, false)
		}
		g.listener.answer(c.id, 0, e)
		return
	}
	held, err := g.callersSocket(c)
	switch {
	case err == unix.EBADF:
		g.listener.answer(c.id, 0, unix.EBADF)
	case err != nil:
		// Containers may refuse the copy to everyone.
		g.replaceSocket(c, target)
	default:
		defer unix.Close(held)
		e := unix.ENOTSOCK
		if socketOption(held, unix.SO_PROTOCOL) == unix.IPPROTO_TCP {
			e = g.connectTo(held, target)
		}
		g.listener.answer(c.id, 0, e)
	}
}

// parseSockaddr reads struct sockaddr_in and sockaddr_in6, see ip(7), ipv6(7).
// It returns nil for a Unix socket.
func parseSockaddr(raw []byte) (unix.Sockaddr, unix.Errno) {
	if len(raw) < 2 { // without a family
		return nil, unix.EINVAL
	}
	port := func() int { return int(binary.BigEndian.Uint16(raw[2:])) }
	switch family := binary.NativeEndian.Uint16(raw); family {
	case unix.AF_UNIX:
		return nil, 0
	case unix.AF_INET:
		if len(raw) < unix.SizeofSockaddrInet4 {
			return nil, unix.EINVAL
		}
		return &unix.SockaddrInet4{Port: port(), Addr: [4]byte(raw[4:8])}, 0
	case unix.AF_INET6:
		if len(raw) < 24 { // without the scope, as RFC 2133 had it
			return nil, unix.EINVAL
		}
		return &unix.SockaddrInet6{Port: port(), Addr: [16]byte(raw[8:24])}, 0
	}
	return nil, unix.EAFNOSUPPORT
}

// mappedLoopback begins ::ffff:127.0.0.0/104, the loopback of dual-stack sockets.
var mappedLoopback = []byte{10: 0xff, 11: 0xff, 12: 127}

// forward returns the address of the listener that stands for the one asked
// for. What is not on loopback has no route, as in a namespace of its own.
func (g *guard) forward(a unix.Sockaddr) (unix.Sockaddr, unix.Errno) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		if a.Addr[0] != 127 && a.Addr != [4]byte{} {
			return nil, unix.ENETUNREACH
		}
		if real, ok := g.realPort(a.Port); ok && a.Addr == [4]byte{127, 0, 0, 1} {
			return &unix.SockaddrInet4{Port: real, Addr: a.Addr}, 0
		}
	case *unix.SockaddrInet6:
		loopback := a.Addr == [16]byte{15: 1} || a.Addr == [16]byte{}
		if !loopback && !bytes.HasPrefix(a.Addr[:], mappedLoopback) {
			return nil, unix.ENETUNREACH
		}
		if real, ok := g.realPort(a.Port); ok && a.Addr == [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1} {
			return &unix.SockaddrInet6{Port: real, Addr: a.Addr}, 0
		}
	}
	return nil, unix.ECONNREFUSED
}

func (g *guard) realPort(port int) (int, bool) {
	for _, f := range g.forwards {
		if f.Port == port {
			return f.Real, true
		}
	}
	return 0, false
}

// connectTo connects a socket and announces its local end.
func (g *guard) connectTo(fd int, target unix.Sockaddr) unix.Errno {
	outcome := result(unix.Connect(fd, target))
	if outcome != 0 && outcome != unix.EINPROGRESS && outcome != unix.EINTR {
		return outcome
	}
	local, err := localEnd(fd)
	if err != nil {
		return errnoOf(err)
	}
	body := append(binary.BigEndian.AppendUint16(nil, local.Port()), local.Addr().AsSlice()...)
	if err := SendMessage(g.control, MessageConnection, body); err != nil {
		return unix.ENETDOWN
	}
	return outcome
}

func localEnd(fd int) (netip.AddrPort, error) {
	a, err := unix.Getsockname(fd)
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), err
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), err
	}
	if err == nil {
		err = unix.EAFNOSUPPORT
	}
	return netip.AddrPort{}, err
}

// replaceSocket connects a socket of the guard's and puts it in the place of
// the caller's.
func (g *guard) replaceSocket(c *call, target unix.Sockaddr) {
	flags, e := socketFlags(c)
	if e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	family := unix.AF_INET
	if _, ok := target.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		g.listener.answer(c.id, 0, errnoOf(err))
		return
	}
	defer unix.Close(fd)
	if e := g.connectTo(fd, target); e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	if flags&unix.O_NONBLOCK != 0 {
		_ = unix.SetNonblock(fd, true)
	}
	g.listener.answerInPlace(c.id, fd, c.int(0), flags&unix.O_CLOEXEC != 0)
}

// socketFlags reads the flags of the caller's descriptor and makes sure that it
// is a socket, see proc_pid_fdinfo(5).
func socketFlags(c *call) (int, unix.Errno) {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.pid, c.int(0)))
	if err != nil {
		return 0, unix.EBADF
	}
	if !strings.HasPrefix(link, "socket:") {
		return 0, unix.ENOTSOCK
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.pid, c.int(0)))
	_, after, ok := bytes.Cut(info, []byte("flags:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	flags, err2 := strconv.ParseInt(strings.TrimSpace(string(line)), 8, 64)
	if err != nil || err2 != nil || !ok {
		return 0, unix.EBADF
	}
	return int(flags), 0
}
