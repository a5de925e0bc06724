package main

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketTechniques attack invariant 1, "no byte leaves except through a decision
// of the filter", as far as kinds of sockets go. $ATTACK_SOCKET is a datagram
// socket of the host, $ATTACK_STREAM a listening one.
var socketTechniques = []technique{
	{"families: all others", everyFamily},
	{"families: all netlink protocols", everyNetlink},
	{"families: raw Internet protocols", everyRaw},
	{"families: pairs that are not connected", func() error {
		return firstOf(takeApart, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_RDM,
			unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.SOCK_RAW|unix.SOCK_CLOEXEC)
	}},
	{"families: pairs of another family", func() error {
		return firstOf(func(kind int) error { return pair(unix.AF_TIPC, kind) }, unix.SOCK_STREAM, unix.SOCK_SEQPACKET, unix.SOCK_RDM)
	}},
	{"aimed: datagram to a socket of the host", func() error {
		return firstOf(func(kind int) error { return aim(kind, os.Getenv("ATTACK_SOCKET")) }, unix.SOCK_DGRAM, unix.SOCK_RAW)
	}},
	{"aimed: datagram with its address in a message", func() error {
		return firstOf(func(kind int) error { return aimMessage(kind, os.Getenv("ATTACK_SOCKET")) }, unix.SOCK_DGRAM, unix.SOCK_RAW)
	}},
	{"aimed: connected pair to a socket of the host", func() error {
		return firstOf(func(kind int) error { return reconnect(kind, os.Getenv("ATTACK_STREAM")) }, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	}},
	{"aimed: connection to a socket of the host", func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: os.Getenv("ATTACK_STREAM")})
	}},
	{"inherited: process at the other end", peerProcess},
}

func firstOf(try func(int) error, values ...int) error {
	var last error
	for _, v := range values {
		if last = try(v); last == nil {
			return nil
		}
	}
	return last
}

func everyFamily() error {
	const families = 47 // AF_MAX
	var last error
	for family := range families {
		if family == unix.AF_INET || family == unix.AF_INET6 || family == unix.AF_NETLINK || family == unix.AF_UNIX {
			continue
		}
		kinds := []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET}
		if last = firstOf(func(kind int) error { return socket(family, kind, 0) }, kinds...); last == nil {
			return nil
		}
	}
	return last
}

func everyNetlink() error {
	var last error
	for protocol := range 32 {
		if protocol == unix.NETLINK_ROUTE || protocol == unix.NETLINK_SOCK_DIAG || protocol == unix.NETLINK_KOBJECT_UEVENT {
			continue
		}
		if last = socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol); last == nil {
			return nil
		}
	}
	return last
}

func everyRaw() error {
	var last error
	for _, protocol := range []int{unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_RAW} {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			if last = socket(family, unix.SOCK_RAW, protocol); last == nil {
				return nil
			}
		}
	}
	return last
}

func pair(family, kind int) error {
	fds, err := unix.Socketpair(family, kind, 0)
	if err == nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
	return err
}

// takeApart makes a pair and ends the association of one end, which only
// datagram sockets do.
func takeApart(kind int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	unspecified := [2]byte{} // family AF_UNSPEC
	if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fds[0]), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified))); e != 0 {
		return e
	}
	return nil
}

// aim sends a datagram from one end of a pair to a socket in the file system.
func aim(kind int, path string) error {
	return fromPair(kind, func(fd int) error { return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: path}) })
}

// aimMessage is aim with the address where no filter can look.
func aimMessage(kind int, path string) error {
	return fromPair(kind, func(fd int) error { return unix.Sendmsg(fd, []byte("x"), nil, &unix.SockaddrUnix{Name: path}, 0) })
}

// fromPair sends with one end of a pair. What arrives at the other end did not
// get anywhere else.
func fromPair(kind int, send func(fd int) error) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := send(fds[0]); err != nil {
		return err
	}
	if _, _, err := unix.Recvfrom(fds[1], make([]byte, 1), unix.MSG_DONTWAIT); err == nil {
		return errors.New("it went to the other end")
	}
	return nil
}

// reconnect takes one end of a connected pair to another socket. (An address
// given to sendto(2) is ignored for such an end.)
func reconnect(kind int, path string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	return unix.Connect(fds[0], &unix.SockaddrUnix{Name: path})
}

// peerProcess takes the process that made standard input, a socket, and tries
// what a descriptor of a process is good for.
func peerProcess() error {
	const peerPidfd = 77 // SO_PEERPIDFD, Linux 6.5
	fd, err := unix.GetsockoptInt(0, unix.SOL_SOCKET, peerPidfd)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, try := range []func() error{
		func() error { return unix.PidfdSendSignal(fd, 0, nil, 0) },
		func() error { _, err := unix.PidfdGetfd(fd, 0, 0); return err },
		func() error { return unix.Setns(fd, unix.CLONE_NEWUTS) },
	} {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}
