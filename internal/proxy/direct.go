package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/srt-sandbox/srt/internal/policy"
)

// Direct serves the programs of one command that know no proxy: inside its
// sandbox every address leads here, and every name has an address of its own.
type Direct struct {
	s     *Session
	who   Invocation
	names *nameTable
	told  *told
}

// NewDirect returns the direct way out for one command.
func (s *Session) NewDirect(who Invocation) *Direct {
	return &Direct{s: s, who: who, names: newNameTable(), told: &told{}}
}

// wish translates the address that a program connected to.
func (d *Direct) wish(to netip.AddrPort) wish {
	q := wish{protocol: protocolDirect, host: to.Addr().Unmap().String(), port: int(to.Port()), who: d.who}
	if name, ok := d.names.of(to.Addr().Unmap()); ok {
		q.host = name
	}
	if !to.Addr().Unmap().IsLoopback() {
		return q
	}
	// A server on this machine may be listed by name. One that is meant under every
	// address need not have the one that the program tried first.
	if decision := d.s.consult(q); decision.Verdict != policy.Allow || decision.AnyLoopback {
		if d.s.consult(withHost(q, "localhost")).Verdict == policy.Allow {
			q.host = "localhost"
		}
	}
	return q
}

func withHost(q wish, host string) wish {
	q.host = host
	return q
}

// Judge reports whether a connection to the address may be tried. It waits where
// a person is asked.
func (d *Direct) Judge(ctx context.Context, to netip.AddrPort) bool {
	q := d.wish(to)
	decision := d.s.consult(q)
	if decision.Verdict == policy.Allow {
		return true
	}
	_, err := d.s.settle(ctx, q, decision)
	d.s.report(q, decision, err)
	return err == nil
}

// Serve accepts connections on a listener whose address is the one that the
// program meant. The destination is judged again, because the lists may have
// changed, and then dialed.
func (d *Direct) Serve(ln net.Listener) error {
	to, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("serving connections without a proxy: %v is no TCP address", ln.Addr())
	}
	return d.s.serve(ln, func(v *service, conn net.Conn) {
		c := newClient(v, conn, d.who)
		c.r, c.w = d.s.reader(&c.in), d.s.writer(conn)
		defer c.dropBuffers()
		up, early, err := c.reach(d.wish(to.AddrPort()))
		if err != nil {
			reset(conn)
			return
		}
		c.tunnel(up, "", early)
	})
}

// reset ends a connection so that the program sees a failure, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	conn.Close()
}

// LoopbackPorts returns the ports of this machine's loopback that the allow list names.
func (s *Session) LoopbackPorts() []int { return s.hosts.Load().LoopbackPorts() }
