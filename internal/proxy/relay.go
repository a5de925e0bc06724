package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// relay copies both ways until both directions ended. Each direction ends on
// its own: the end of one is passed on, and the other goes on. early are bytes
// of the client and ahead bytes of the upstream that were read before. Copies
// between two TCP connections stay in the kernel, so nothing wraps them. It
// returns how many bytes went to the upstream and how many came from it.
func (s *Session) relay(client, upstream net.Conn, early, ahead []byte) (sent, received int64) {
	var other sync.WaitGroup
	var ends atomic.Int32
	other.Go(func() { sent = s.copyOneWay(upstream, client, early, &ends) })
	received = s.copyOneWay(client, upstream, ahead, &ends)
	other.Wait()
	return sent, received
}

// copyOneWay counts proper ends: at the second one both connections are about to
// be closed, which tells the other side as well.
func (s *Session) copyOneWay(to, from net.Conn, first []byte, ends *atomic.Int32) (copied int64) {
	var err error
	if len(first) > 0 {
		var n int
		n, err = to.Write(first)
		copied = int64(n)
	}
	if err == nil {
		var n int64
		n, err = s.pipes.copyConn(to, from)
		copied += n
	}
	if _, plain := to.(syscall.Conn); err == nil && ends.Add(1) == 2 && plain {
		return copied
	}
	closeWrite(to)
	if err != nil {
		// A side that stopped reading may have sent an answer before: the other
		// direction gets a moment.
		soon := time.Now().Add(s.waits.drain)
		_ = from.SetDeadline(soon)
		_ = to.SetDeadline(soon)
	}
	return copied
}

// closeWrite ends one direction of a connection that can do that.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
