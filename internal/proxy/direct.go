package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
)

// Direct serves the programs of one command that know no proxy: inside its
// sandbox every address leads here, and every name has an address of its own.
type Direct struct {
	s     *Session
	who   Invocation
	names *nameTable
	// told are refused names, and missed the addresses, that were recorded.
	told, missed *told
	// Closed is set before anything is served, where nothing is reached but ports of
	// this machine's loopback; nil otherwise.
	Closed *Closed
	// grants are connections that a person has allowed and that are about to be
	// made: who was asked before a connection is not asked again by its arrival.
	grants grants
}

// NewDirect returns the direct way out for one command.
func (s *Session) NewDirect(who Invocation) *Direct {
	return &Direct{s: s, who: who, names: newNameTable(), told: &told{}, missed: &told{}}
}

// Invocation is the command as its proxies are to know it, so that they understand
// the addresses that its names have here.
func (d *Direct) Invocation() Invocation {
	who := d.who
	who.names = d.names
	return who
}

// wish is a destination of a proxy's client. One that looked the name up itself, as
// with socks5:// instead of socks5h://, gives the address that stands for it.
func (c *client) wish(p protocol, host string, port int) wish {
	q := wish{protocol: p, host: host, port: port, who: c.who}
	if c.who.names == nil {
		return q
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return q
	}
	if name, ok := c.who.names.of(a.Unmap()); ok && c.s.consult(q).Verdict != policy.Allow {
		return withHost(q, name)
	}
	return q
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
	if decision := d.s.consult(q); decision.Verdict == policy.Allow && !decision.AnyLoopback {
		return q
	}
	for _, name := range d.s.hosts.Load().LocalNames(q.port, d.who.AllowDomains) {
		if d.s.consult(withHost(q, name)).Verdict == policy.Allow {
			return withHost(q, name)
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
	if d.Closed != nil && !to.Addr().Unmap().IsLoopback() {
		d.Missed(to, false)
		return false
	}
	q := d.wish(to)
	a := d.s.newAttempt(q, d.s.consult(q))
	switch {
	case a.d.Verdict == policy.Allow:
		return true // reported when the connection ends
	case a.d.Verdict == policy.Ask && d.grants.holds(to):
		return true // a program that calls connect(2) again for the same connection
	}
	asked := a.d.Verdict == policy.Ask
	if asked && d.s.o.RefuseOpaqueTunnels {
		a.failed(d.s.refuseOpaque(q, a.d)) // nobody is asked in vain
		return false
	}
	if _, err := d.s.settle(ctx, a); err != nil {
		a.failed(err)
		return false
	}
	if asked {
		d.grants.add(to)
	}
	return true
}

// Serve accepts connections on a listener whose address is the one that the
// program meant. The destination is judged again, because the lists may have
// changed, and then dialed.
func (d *Direct) Serve(ln net.Listener) error {
	to, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("serving connections without a proxy: %v is no TCP address", ln.Addr())
	}
	return d.s.serve(ln, func(v *service, conn net.Conn) func() {
		c := newClient(v, conn, d.who)
		q := d.wish(to.AddrPort())
		q.granted = d.s.consult(q).Verdict == policy.Ask && d.grants.take(to.AddrPort())
		up, early, err := c.reach(q)
		if err != nil {
			reset(conn)
			return nil
		}
		return c.tunnel(up, "", early)
	})
}

// reset ends a connection so that the program sees a failure, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = t.SetLinger(0)
	}
	conn.Close()
}

// LoopbackPorts returns the ports of this machine's loopback that the lists which
// hold for the command name.
func (d *Direct) LoopbackPorts() []int { return d.s.hosts.Load().LoopbackPorts(d.who.AllowDomains) }

// grants counts allowed connections by their address until they are used.
type grants struct {
	mu   sync.Mutex
	left map[netip.AddrPort][]time.Time // when each ends
}

const (
	maxGrants = 1024
	// grantTime is long enough for a connection within this machine.
	grantTime = 10 * time.Second
)

// add drops the grant where too many are unused; the connection then asks again.
func (g *grants) add(to netip.AddrPort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire()
	total := 0
	for _, ends := range g.left {
		total += len(ends)
	}
	if total >= maxGrants {
		return
	}
	if g.left == nil {
		g.left = map[netip.AddrPort][]time.Time{}
	}
	g.left[to] = append(g.left[to], time.Now().Add(grantTime))
}

func (g *grants) holds(to netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire()
	return len(g.left[to]) > 0
}

func (g *grants) take(to netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire()
	if len(g.left[to]) == 0 {
		return false
	}
	g.left[to] = g.left[to][1:]
	return true
}

func (g *grants) expire() {
	now := time.Now()
	for to, ends := range g.left {
		ends = slices.DeleteFunc(ends, func(t time.Time) bool { return now.After(t) })
		if len(ends) == 0 {
			delete(g.left, to)
		} else {
			g.left[to] = ends
		}
	}
}
