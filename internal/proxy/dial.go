package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
)

// stagger is how long one address may stay silent before the next is tried
// too, as RFC 8305 recommends.
const stagger = 250 * time.Millisecond

// dial connects to an allowed destination by the first route that applies. A
// route that fails is the answer; no other is tried.
func (s *Session) dial(ctx context.Context, t target, who Invocation) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	var conn net.Conn
	var err error
	switch {
	case s.o.MITM.handles(t.host):
		conn, err = s.o.MITM.dial(ctx, t)
	case s.o.Parent.tunnels(t.host):
		conn, err = s.o.Parent.dial(ctx, t, s.o.Dial)
	default:
		conn, err = s.dialDirect(ctx, t, who)
	}
	if err != nil {
		return nil, err
	}
	return s.adopt(conn)
}

// adopt ties an upstream connection to the session's life.
func (s *Session) adopt(conn net.Conn) (net.Conn, error) {
	if !s.track(conn) {
		conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *Session) release(conn net.Conn) {
	s.forget(conn)
	conn.Close()
}

// dialDirect resolves a name once, drops the addresses that the policy refuses
// and connects to one of the rest: the address that was checked is the one that
// is dialed.
func (s *Session) dialDirect(ctx context.Context, t target, who Invocation) (net.Conn, error) {
	if _, err := netip.ParseAddr(t.host); err == nil {
		return s.o.Dial(ctx, t.String())
	}
	addrs, err := s.resolve(ctx, t.host)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", t.host, err)
	}
	good, classes := s.permitted(t, addrs)
	if len(good) == 0 && len(classes) > 0 {
		reason := policy.DescribeClasses(classes)
		s.record(who, t.host, t.host, t.port, reason, policy.Rule{Setting: "resolved address check", Cure: cureFor(classes)})
		return nil, &refusal{reason: reason, resolved: true, host: t.host}
	}
	return s.dialAny(ctx, good, t.port)
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

// resolve answers localhost itself, as RFC 6761 asks: no resolver has a say.
func (s *Session) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := s.o.Lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no addresses")
	}
	return addrs, err
}

func (s *Session) permitted(t target, addrs []netip.Addr) (good []netip.Addr, classes []policy.AddressClass) {
	hosts, own := s.hosts.Load(), s.o.OwnAddresses()
	for _, a := range addrs {
		if class, denied := hosts.CheckAddress(t.host, t.port, a, own); denied {
			classes = append(classes, class)
			s.o.Logger.Debug("dropping a resolved address", "host", t.host, "address", a.String(), "class", class.String())
			continue
		}
		good = append(good, a.Unmap())
	}
	return good, classes
}

type dialed struct {
	conn net.Conn
	err  error
}

// dialAny tries the addresses in order, the next one when the last failed or
// stays silent, and takes the first that answers.
func (s *Session) dialAny(ctx context.Context, addrs []netip.Addr, port int) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan dialed, len(addrs))
	start := func(a netip.Addr) {
		conn, err := s.o.Dial(ctx, net.JoinHostPort(a.String(), strconv.Itoa(port)))
		results <- dialed{conn, err}
	}
	var first error
	pending, next := 0, 0
	defer func() { go discard(results, pending); cancel() }()
	for next < len(addrs) || pending > 0 {
		var timer <-chan time.Time
		if next < len(addrs) {
			if pending == 0 {
				pending++
				go start(addrs[next])
				next++
				continue
			}
			timer = time.After(stagger)
		}
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				return r.conn, nil
			}
			first = errors.Join(first, r.err)
		case <-timer:
			pending++
			go start(addrs[next])
			next++
		}
	}
	return nil, first
}

// discard closes the connections of attempts that lost.
func discard(results <-chan dialed, pending int) {
	for range pending {
		if r := <-results; r.conn != nil {
			r.conn.Close()
		}
	}
}
