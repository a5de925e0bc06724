package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of this file are made without the scheduler's knowledge. They are
// for sockets that do not block: each takes some microseconds, in which the kernel
// delivers what is sent to the other end on this machine. With the scheduler's
// knowledge its watchdog finds many of them under way, starts threads in their place
// and looks every 20 µs from then on, which costs more than it brings.

// TryRead reads what a socket that does not block has; EAGAIN when it has nothing.
func TryRead(fd int, p []byte) (int, error) {
	for {
		if n, err := read(fd, p); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func tryWrite(fd int, p []byte) (int, error) {
	for {
		if n, err := write(fd, p); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func accept(listener int) (int, error) {
	for {
		fd, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return -1, errno
		}
	}
}

// connect begins a connection or, called again, tells how it stands.
func connect(fd int, to sockaddr) error {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), to.size)
	if errno != 0 {
		return errno
	}
	return nil
}

// sockaddr is an address as the kernel takes it: one of IPv6 is the longer one.
type sockaddr struct {
	raw  unix.RawSockaddrInet6
	size uintptr
}
