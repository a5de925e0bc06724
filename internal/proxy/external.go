package proxy

import (
	"net"
	"strconv"
)

// ServeForward relays every connection of a listener to a proxy on this
// machine's loopback, which does all filtering itself.
func (s *Session) ServeForward(ln net.Listener, port int) error {
	if !s.track(ln) {
		ln.Close()
		return net.ErrClosed
	}
	defer s.forget(ln)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		s.wait.Go(func() {
			defer conn.Close()
			upstream, err := s.o.Dial(s.ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return
			}
			defer upstream.Close()
			if s.track(conn) && s.track(upstream) {
				relay(conn, upstream, nil)
			}
			s.forget(conn)
			s.forget(upstream)
		})
	}
}
