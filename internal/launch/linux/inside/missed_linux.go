package inside

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// maxMissed bounds what the guard tells of connections that lead nowhere.
const maxMissed = 2000

// isTCP recognises the protocols whose connections a listener of TCP takes:
// without a partner that speaks it, Multipath TCP is TCP.
func isTCP(protocol int) bool {
	return protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_MPTCP
}

// missed tells the host half of a connection that leads nowhere. The kernel refuses
// it and says no more than that; the host half knows whether something outside was
// meant, and which setting would lead there. fd is the socket and e what connect(2)
// returned for it.
func (g *guard) missed(fd int, raw []byte, e unix.Errno) {
	to, ok := destination(raw)
	if !ok || !to.Addr().IsLoopback() && to.Port() == namePort || to.Addr().IsLoopback() && g.direct.own[int(to.Port())] {
		return
	}
	switch protocol := socketOption(fd, unix.SO_PROTOCOL); {
	case protocol == unix.IPPROTO_UDP && !to.Addr().IsLoopback():
		g.tellMissed(to, true)
	case isTCP(protocol) && (e == unix.ECONNREFUSED || e == unix.ENETUNREACH || e == unix.EINPROGRESS && isClosed(fd)):
		g.tellMissed(to, false)
	}
}

// isClosed reports whether a connection that was just begun was refused already, as
// the loopback interface does it at once. The program still finds the error.
func isClosed(fd int) bool {
	const closed = 7 // TCP_CLOSE of <netinet/tcp.h>
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State == closed
}

// tellMissed is missed for a connection that the guard refuses itself.
func (g *guard) tellMissed(to netip.AddrPort, datagram bool) {
	if g.toldMissed.Add(1) > maxMissed {
		return
	}
	body := []byte{0}
	if datagram {
		body[0] = 1
	}
	body = binary.BigEndian.AppendUint16(body, to.Port())
	_ = SendMessage(g.control, MessageMissed, append(body, to.Addr().AsSlice()...))
}
