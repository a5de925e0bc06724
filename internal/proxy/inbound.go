package proxy

import (
	"context"
	"net"
)

// ServeInbound leads every connection of a listener of this machine to a server
// inside a sandbox, which dial connects to: it may wait for the server, for as long
// as its context lasts. No list has a say, because nothing that the command does
// makes a connection. When the listener is closed, what was sent gets a moment to
// arrive; the end of ctx or of the session cuts everything at once.
func (s *Session) ServeInbound(ctx context.Context, ln net.Listener, dial func(context.Context) (net.Conn, error)) error {
	v, err := s.begin(ln)
	if err != nil {
		return err
	}
	// Strangers outside must not use up what the command's own connections need.
	v.slots, v.grace = make(chan struct{}, maxInbound), s.waits.farewell
	stop := context.AfterFunc(ctx, v.end)
	defer stop()
	return v.serve(func(v *service, conn net.Conn) func() {
		inside, err := v.dialInside(dial)
		if err != nil {
			s.o.Logger.Debug("connecting to a published port inside", "address", ln.Addr().String(), "error", err)
			reset(conn)
			return nil
		}
		if !v.hold(inside) {
			return nil
		}
		return func() {
			defer v.release(inside)
			s.relay(conn, inside, nil, nil)
		}
	})
}

func (v *service) dialInside(dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(v.ctx, v.s.waits.inbound)
	defer cancel()
	return dial(ctx)
}
