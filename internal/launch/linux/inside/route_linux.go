package inside

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Inside a sandbox whose programs may connect without a proxy every address is
// one of this machine: a default route in the table of local addresses leads
// everything to the loopback interface, see ip-route(8) on the type "local".

// makeEverythingLocal adds that route for each address family.
func makeEverythingLocal() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("leading all addresses to the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := addLocalRoute(fd, family)
		if family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)) {
			continue // a kernel, or a namespace, without IPv6
		}
		if err != nil {
			return fmt.Errorf("leading all addresses to the loopback interface: %w", err)
		}
	}
	return nil
}

// loopbackIndex is the number of lo, the first interface of every network namespace.
const loopbackIndex = 1

func addLocalRoute(fd int, family byte) error {
	m := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg+unix.SizeofRtAttr+4)
	binary.NativeEndian.PutUint32(m[0:], uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], unix.RTM_NEWROUTE)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	r := m[unix.SizeofNlMsghdr:]
	r[0] = family
	r[4], r[5], r[6], r[7] = unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL
	a := r[unix.SizeofRtMsg:]
	binary.NativeEndian.PutUint16(a[0:], unix.SizeofRtAttr+4)
	binary.NativeEndian.PutUint16(a[2:], unix.RTA_OIF)
	binary.NativeEndian.PutUint32(a[4:], loopbackIndex)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("unexpected answer of the kernel")
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

const namePort = 53

// openNameSockets returns the sockets that answer name lookups, whichever server
// they are meant for: two for datagrams, two for TCP, without IPv6 one each.
func openNameSockets() ([]int, error) {
	var all []int
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_STREAM} {
			fd, err := nameSocket(family, kind)
			if family == unix.AF_INET6 && errors.Is(err, unix.EAFNOSUPPORT) {
				return all, nil
			}
			if err != nil {
				return nil, fmt.Errorf("listening for name lookups inside the sandbox: %w", err)
			}
			all = append(all, fd)
		}
	}
	return all, nil
}

func nameSocket(family, kind int) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	var address unix.Sockaddr = &unix.SockaddrInet4{Port: namePort}
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if family == unix.AF_INET6 {
		address = &unix.SockaddrInet6{Port: namePort}
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
		err = ownIPv6(fd)
	}
	if err == nil && kind == unix.SOCK_DGRAM {
		err = unix.SetsockoptInt(fd, level, option, 1)
	}
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, listenBacklog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
