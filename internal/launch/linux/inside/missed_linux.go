package inside

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// missedConnections are those that led nowhere and were told of, from several threads.
// When there are too many it starts anew, as [reports] do.
type missedConnections struct {
	mu   sync.Mutex
	told map[string]bool
}

func (m *missedConnections) first(message []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[string(message)] {
		return false
	}
	if m.told == nil || len(m.told) >= maxRemembered {
		m.told = map[string]bool{}
	}
	m.told[string(message)] = true
	return true
}

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
	body := []byte{0}
	if datagram {
		body[0] = 1
	}
	body = append(binary.BigEndian.AppendUint16(body, to.Port()), to.Addr().AsSlice()...)
	if g.missedBefore.first(body) {
		_ = SendMessage(g.control, MessageMissed, body)
	}
}
