package proxy

import (
	"net"
	"sync"
	"time"
)

// relay copies both ways until both directions ended. Each direction ends on
// its own: the end of one is passed on, and the other goes on. early are bytes
// of the client and ahead bytes of the upstream that were read before. Copies
// between two TCP connections stay in the kernel, so nothing wraps them.
func (s *Session) relay(client, upstream net.Conn, early, ahead []byte) {
	var other sync.WaitGroup
	other.Go(func() { s.copyOneWay(upstream, client, early) })
	s.copyOneWay(client, upstream, ahead)
	other.Wait()
}

func (s *Session) copyOneWay(to, from net.Conn, first []byte) {
	var err error
	if len(first) > 0 {
		_, err = to.Write(first)
	}
	if err == nil {
		_, err = s.pipes.copyConn(to, from)
	}
	closeWrite(to)
	if err != nil {
		// A side that stopped reading may have sent an answer before: the other
		// direction gets a moment.
		soon := time.Now().Add(s.waits.drain)
		_ = from.SetDeadline(soon)
		_ = to.SetDeadline(soon)
	}
}

// closeWrite ends one direction of a connection that can do that.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
