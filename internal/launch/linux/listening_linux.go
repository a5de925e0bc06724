package linux

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// nothingListens reports whether no TCP server of this machine listens on a port,
// whatever the address. Where the kernel does not tell, one may.
func nothingListens(port int) bool {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if found, err := listens(family, port); found || err != nil {
			return false
		}
	}
	return true
}

// Sizes and places of sock_diag(7).
const (
	diagRequestSize = 56 // struct inet_diag_req_v2
	diagMessageSize = 72 // struct inet_diag_msg
	diagSourcePort  = 4  // idiag_sport in it
	stateListen     = 10 // TCP_LISTEN of <net/tcp_states.h>
	sockDiag        = 20 // SOCK_DIAG_BY_FAMILY
)

// listens asks the kernel for the listening sockets of one family.
func listens(family byte, port int) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	question := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	binary.NativeEndian.PutUint32(question[0:], uint32(len(question)))
	binary.NativeEndian.PutUint16(question[4:], sockDiag)
	binary.NativeEndian.PutUint16(question[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	r := question[unix.SizeofNlMsghdr:]
	r[0], r[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], 1<<stateListen)
	if err := unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	answer := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return false, err
		}
		if found, done, err := findListener(answer[:n], port); found || done || err != nil {
			return found, err
		}
	}
}

var errDiagnosis = errors.New("asking the kernel for listening sockets: unexpected answer")

// findListener looks for a port in one part of the kernel's answer.
func findListener(answer []byte, port int) (found, done bool, err error) {
	for len(answer) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(answer))
		if size < unix.SizeofNlMsghdr || size > len(answer) {
			return false, false, errDiagnosis
		}
		body := answer[unix.SizeofNlMsghdr:size]
		switch binary.NativeEndian.Uint16(answer[4:]) {
		case unix.NLMSG_DONE:
			return false, true, nil
		case sockDiag:
			if len(body) < diagMessageSize {
				return false, false, errDiagnosis
			}
			if int(binary.BigEndian.Uint16(body[diagSourcePort:])) == port {
				return true, false, nil
			}
		default:
			return false, false, errDiagnosis
		}
		answer = answer[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(answer)):]
	}
	return false, false, nil
}
