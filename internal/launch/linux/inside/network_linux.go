package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// listenBacklog lets bursts of connections wait while the host accepts.
const listenBacklog = 4096

// bringLoopbackUp activates the only interface of a new network namespace.
func bringLoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing the loopback interface up: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bringing the loopback interface up: %w", err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bringing the loopback interface up: %w", err)
	}
	return nil
}

// listenLoopback returns listening sockets on port for each loopback address
// family that the kernel has. A socket belongs to the namespace it was made in,
// so whoever accepts on it need not be inside.
func listenLoopback(port int) ([]int, error) {
	v4, err := listenOn(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		return nil, fmt.Errorf("listening on 127.0.0.1:%d inside the sandbox: %w", port, err)
	}
	v6, err := listenOn(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}})
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return []int{v4}, nil
	}
	if err != nil {
		unix.Close(v4)
		return nil, fmt.Errorf("listening on [::1]:%d inside the sandbox: %w", port, err)
	}
	return []int{v4, v6}, nil
}

func listenOn(family int, address unix.Sockaddr) (int, error) {
	fd, err := bindOn(family, address)
	if err != nil {
		return -1, err
	}
	if err := unix.Listen(fd, listenBacklog); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// bindOn returns a socket that does not listen yet.
func bindOn(family int, address unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	// Connections that ended a while ago must not keep the port; a listener does.
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		err = ownIPv6(fd)
	}
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ownIPv6 keeps a socket to IPv6, and lets it have addresses that no interface has:
// unlike those of IPv4, the kernel does not go by the routes there.
func ownIPv6(fd int) error {
	err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	}
	return err
}
