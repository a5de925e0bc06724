package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
)

// leg is a connection to the next hop.
type leg struct {
	net.Conn
	// raw is the connection to the machine, where Conn is TLS on it. Closing it
	// never waits.
	raw net.Conn
	// ahead are bytes of the tunnel that came with an upstream proxy's answer.
	ahead []byte
	// attempt is told the end of a tunnel; sent and received count what goes
	// through Read and Write.
	attempt        *attempt
	sent, received atomic.Int64
}

func newLeg(conn net.Conn) *leg { return &leg{Conn: conn, raw: conn} }

// startTLS goes on in TLS with a verified server. The connection is closed when
// that fails.
func (l *leg) startTLS(ctx context.Context, c *tls.Config) (*leg, error) {
	secure := tls.Client(l.Conn, c)
	err := secure.HandshakeContext(ctx)
	if err == nil && len(l.ahead) > 0 {
		err = errors.New("the server spoke before the TLS handshake")
	}
	if err != nil {
		l.raw.Close()
		return nil, fmt.Errorf("opening TLS to %s: %w", c.ServerName, err)
	}
	l.Conn = secure
	return l, nil
}

// dial connects to an allowed destination by the first route that applies. A
// route that fails is the answer; no other is tried.
func (s *Session) dial(ctx context.Context, t target, q wish) (*leg, error) {
	m := s.listsFor(q).mitm
	if !m.handles(t.host) && !s.o.Parent.tunnels(t.host) && q.limited {
		return s.dialDirect(ctx, t, q)
	}
	ctx, cancel := context.WithTimeout(ctx, s.waits.dial)
	defer cancel()
	switch {
	case m.handles(t.host):
		return m.dial(ctx, t)
	case s.o.Parent.tunnels(t.host):
		return s.o.Parent.https.tunnel(ctx, t, q, s)
	}
	return s.dialDirect(ctx, t, q)
}

func (s *Session) dialDirect(ctx context.Context, t target, q wish) (*leg, error) {
	return s.dialChecked(ctx, t, q, s.dialOne)
}

// dialFunc connects to one address, by whatever way.
type dialFunc func(context.Context, netip.Addr, int) (*leg, error)

// dialChecked resolves a name once, drops the addresses that the policy refuses
// and connects to one of the rest: the address that was checked is the one that
// is dialed.
func (s *Session) dialChecked(ctx context.Context, t target, q wish, dial dialFunc) (*leg, error) {
	if t.port == 0 {
		return nil, errors.New("there is no port 0")
	}
	if a, err := netip.ParseAddr(t.host); err == nil {
		return s.dialAny(ctx, []netip.Addr{a}, t.port, dial)
	}
	addrs, err := s.resolve(ctx, t.host)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", t.host, err)
	}
	own, err := s.o.OwnAddresses()
	if err != nil { // a command can use up the descriptors that listing them takes
		return nil, fmt.Errorf("listing the addresses of this machine, to which %s may not lead: %w", t.host, err)
	}
	good, classes := s.permitted(t, addrs, own)
	if len(good) == 0 {
		return nil, s.refuse(q, refusal{
			kind: byAddress, host: t.host, reason: policy.DescribeClasses(classes),
			rule: policy.Rule{Setting: "resolved address check", Cure: cureFor(classes)},
		})
	}
	return s.dialAny(ctx, good[:min(len(good), maxAttempts)], t.port, dial)
}

// cureFor says what would allow a refused address, where anything would.
func cureFor(classes []policy.AddressClass) string {
	switch {
	case slices.Contains(classes, policy.AddressDenyListed):
		return "remove the address from network.deniedDomains"
	case slices.Contains(classes, policy.AddressListed):
		return "remove the range from network.deniedResolvedAddresses"
	}
	return "add the address itself to network.allowedDomains"
}

// resolve answers the localhost names itself, as RFC 6761 asks: no resolver has
// a say. It never returns an empty list without an error.
func (s *Session) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if policy.IsLocalhost(host) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := s.o.Lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no addresses")
	}
	return addrs, err
}

func (s *Session) permitted(t target, addrs, own []netip.Addr) (good []netip.Addr, classes []policy.AddressClass) {
	hosts := s.hosts.Load()
	for _, a := range addrs {
		if class, denied := hosts.CheckAddress(t.host, t.port, a, own); denied {
			classes = append(classes, class)
			s.o.Logger.Debug("dropping a resolved address", "host", t.host, "address", a.String(), "class", class.String())
			continue
		}
		good = append(good, a.Unmap())
	}
	if policy.IsLocalhost(t.host) && slices.Contains(classes, policy.AddressDenyListed) {
		good = nil // the addresses of this machine lead to the same servers
	}
	return good, classes
}

type dialed struct {
	leg *leg
	err error
}

// dialAny tries the addresses in order, the next one when the last failed or
// stays silent, and takes the first that answers.
func (s *Session) dialAny(ctx context.Context, addrs []netip.Addr, port int, dial dialFunc) (*leg, error) {
	if len(addrs) == 1 {
		return dial(ctx, addrs[0], port)
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan dialed, len(addrs))
	pending, next := 0, 0
	defer func() {
		cancel()
		go discard(results, pending)
	}()
	start := func() {
		a := addrs[next]
		pending++
		next++
		go func() {
			l, err := dial(ctx, a, port)
			results <- dialed{l, err}
		}()
	}
	var failed error
	for start(); pending > 0; {
		var timer <-chan time.Time
		if next < len(addrs) {
			timer = time.After(s.waits.stagger)
		}
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				return r.leg, nil
			}
			failed = errors.Join(failed, r.err)
			if next < len(addrs) {
				start()
			}
		case <-timer:
			start()
		}
	}
	return nil, failed
}

func (s *Session) dialOne(ctx context.Context, a netip.Addr, port int) (*leg, error) {
	conn, err := s.o.Dial(ctx, net.JoinHostPort(a.String(), itoa(port)))
	if err != nil {
		return nil, err
	}
	return newLeg(conn), nil
}

// discard closes the connections of attempts that lost.
func discard(results <-chan dialed, pending int) {
	for range pending {
		if r := <-results; r.leg != nil {
			r.leg.raw.Close()
		}
	}
}
