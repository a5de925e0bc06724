package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

// network 56, 57, 60, 73: an allowed name that leads where it must not.
func TestResolvedAddresses(t *testing.T) {
	port := untouched(t)
	r := newRig(t, setup{
		allow: []string{"*.x.test"}, names: map[string]string{"rebind.x.test": "127.0.0.1", "many.x.test": "169.254.1.1 127.0.0.1 fd00:ec2::1 127.0.0.2"},
	})
	got := r.exchange(connectTo("Rebind.X.TEST.:" + port))
	if status(got) != "HTTP/1.1 403 resolved to a loopback address" || !strings.Contains(got, "X-Proxy-Error: blocked-by-sandbox-runtime\r\n") ||
		!strings.HasSuffix(got, "\r\n\r\nConnection to rebind.x.test blocked: resolved to a loopback address\nTo allow it: add the address itself to network.allowedDomains\n") || strings.Contains(got, "127.") {
		t.Errorf("%q", got)
	}
	line := "deny network-outbound rebind.x.test:" + port + " (resolved to a loopback address)"
	if got := r.lines(); got != line {
		t.Errorf("recorded %q", got)
	}
	got = r.exchange("GET http://rebind.x.test:" + port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if status(got) != "HTTP/1.1 403 Forbidden" || !strings.HasSuffix(got, "Connection to rebind.x.test blocked: resolved to a loopback address\nTo allow it: add the address itself to network.allowedDomains\n") || r.lines() != line {
		t.Errorf("%q", got)
	}
	if got := r.exchange(socksConnect("rebind.x.test", port)); got != "\x05\x00"+string(socksReply(socksRuleset)) || r.lines() != line {
		t.Errorf("% x", got)
	}
	if got := r.exchange(connectTo("many.x.test:80")); status(got) != "HTTP/1.1 403 resolved to a loopback address / a link-local address / a cloud metadata address" {
		t.Errorf("%q", got)
	}
}

// Where this machine's own addresses cannot be listed, as when all descriptors are in
// use, no name is reached, because it may lead to one of them.
func TestUnknownOwnAddresses(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"*.x.test", "192.0.2.7"}, names: map[string]string{"a.x.test": "192.0.2.1"},
		options: func(o *Options) {
			o.OwnAddresses = func() ([]netip.Addr, error) { return nil, syscall.EMFILE }
			o.Dial = func(_ context.Context, address string) (net.Conn, error) {
				if address != "192.0.2.7:80" {
					t.Errorf("dialed %s", address)
				}
				return nil, errors.New("not in a test")
			}
		},
	})
	for _, host := range []string{"a.x.test", "192.0.2.7"} {
		if got := r.exchange(connectTo(host + ":80")); status(got) != "HTTP/1.1 502 Bad Gateway" {
			t.Errorf("%q", got)
		}
	}
	if got := r.exchange(socksConnect("a.x.test", "80")); got != "\x05\x00"+string(socksReply(socksHostUnreachable)) {
		t.Errorf("% x", got)
	}
}

// cli 67: an address in a command's own list excepts no name that leads to it.
func TestResolvedAddressesOwnList(t *testing.T) {
	port := untouched(t)
	own, err := hostname.ParseAllow("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{
		allow: []string{"*.x.test"}, names: map[string]string{"rebind.x.test": "127.0.0.1"},
		who: Invocation{ID: "id", Command: "cmd", AllowDomains: hostname.NewSet([]hostname.Pattern{own})},
	})
	if got := status(r.exchange(connectTo("rebind.x.test:" + port))); got != "HTTP/1.1 403 resolved to a loopback address" {
		t.Errorf("%q", got)
	}
}

// network 58, 59, 61, 68, 71
func TestSurvivingAddresses(t *testing.T) {
	port := echoServer(t)
	var mu sync.Mutex
	var dialed []string
	own := []netip.Addr{netip.MustParseAddr("203.0.113.5")}
	r := newRig(t, setup{
		allow: []string{"*.x.test", "127.0.0.1:" + port}, names: map[string]string{"rebind.x.test": "127.0.0.1", "half.x.test": "127.0.0.2 192.0.2.1 ::1 ::ffff:192.0.2.2", "own.x.test": "203.0.113.5"},
		options: func(o *Options) {
			o.OwnAddresses = func() ([]netip.Addr, error) { mu.Lock(); defer mu.Unlock(); return own, nil }
			o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				mu.Lock()
				dialed = append(dialed, address)
				mu.Unlock()
				if strings.HasPrefix(address, "127.") {
					return (&net.Dialer{}).DialContext(ctx, "tcp", address)
				}
				return nil, errors.New("not in a test")
			}
		},
	})
	r.tunnel("rebind.x.test:" + port).Close()
	r.tunnel("127.0.0.1:" + port).Close()
	if len(r.lookups) != 1 {
		t.Errorf("looked up %v", r.lookups)
	}
	if got := r.exchange(connectTo("rebind.x.test:1")); status(got) != "HTTP/1.1 403 resolved to a loopback address" {
		t.Errorf("%q", got)
	}
	mu.Lock()
	dialed = nil
	mu.Unlock()
	if got := r.exchange(connectTo("half.x.test:80")); status(got) != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("%q", got)
	}
	mu.Lock()
	if !slices.Equal(dialed, []string{"192.0.2.1:80", "192.0.2.2:80"}) {
		t.Errorf("dialed %v", dialed)
	}
	mu.Unlock()
	if got := r.exchange(connectTo("own.x.test:80")); status(got) != "HTTP/1.1 403 resolved to one of this host's addresses" {
		t.Errorf("%q", got)
	}
	mu.Lock()
	own = nil
	mu.Unlock()
	if got := r.exchange(connectTo("own.x.test:80")); status(got) != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("the interface is gone: %q", got)
	}
}

// network 66, 67: the localhost names mean this machine, whatever a resolver says.
func TestLocalhost(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"localhost", "app.dev.localhost"}, deny: []string{"127.0.0.1:6379", "[::1]:6380"}, names: map[string]string{"localhost": "10.0.0.5", "app.dev.localhost": "169.254.169.254"}})
	for _, host := range []string{"localhost", "LOCALHOST.", "app.dev.localhost"} {
		r.tunnel(host + ":" + port).Close()
	}
	if len(r.lookups) != 0 {
		t.Errorf("looked up %v", r.lookups)
	}
	for _, target := range []string{"localhost:6379", "localhost:6380"} { // one server, which may listen at both addresses
		if got := r.exchange(connectTo(target)); status(got) != "HTTP/1.1 403 resolved to a deny-listed address" {
			t.Errorf("%s: %q", target, got)
		}
	}
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback: ", err)
	}
	defer ln.Close()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	r.tunnel("localhost:" + port).Close() // the second address is tried too
}

// A silent address does not hold up the next one, and a late answer is closed.
func TestStagger(t *testing.T) {
	port := echoServer(t)
	late := make(chan net.Conn, 1)
	r := newRig(t, setup{
		allow: []string{"two.test", "127.0.0.1"}, names: map[string]string{"two.test": "192.0.2.1 127.0.0.1"}, waits: func(w *waits) { w.stagger = 1 },
		options: func(o *Options) {
			o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				if !strings.HasPrefix(address, "192.") {
					return (&net.Dialer{}).DialContext(ctx, "tcp", address)
				}
				<-ctx.Done()
				near, far := net.Pipe()
				late <- far
				return near, nil
			}
		},
	})
	r.tunnel("two.test:" + port).Close()
	if _, err := (<-late).Read(make([]byte, 1)); err == nil {
		t.Error("the connection that lost stays open")
	}
}

// One name cannot make the filter dial without end.
func TestManyAddresses(t *testing.T) {
	var mu sync.Mutex
	dials := 0
	r := newRig(t, setup{allow: []string{"many.test"}, names: map[string]string{"many.test": strings.Repeat("192.0.2.1 ", 1000)}, options: func(o *Options) {
		o.Dial = func(context.Context, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			return nil, errors.New("no")
		}
	}})
	if got := r.exchange(connectTo("many.test:80")); status(got) != "HTTP/1.1 502 Bad Gateway" || dials != maxAttempts {
		t.Errorf("%q after %d dials", got, dials)
	}
}

// What would allow a refused address is said.
func TestCures(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"*.x.test"}, deny: []string{"192.0.2.1"}, names: map[string]string{"denied.x.test": "192.0.2.1", "listed.x.test": "10.0.0.1", "loop.x.test": "127.0.0.1"},
		network: func(n *config.Network) { n.DeniedResolvedAddresses = []string{"10.0.0.0/8"} },
	})
	for host, want := range map[string]string{
		"denied.x.test": "remove the address from network.deniedDomains", "listed.x.test": "remove the range from network.deniedResolvedAddresses", "loop.x.test": "add the address itself to network.allowedDomains",
	} {
		r.exchange(connectTo(host + ":80"))
		r.mu.Lock()
		if e := r.events[len(r.events)-1]; e.Setting != want {
			t.Errorf("%s: %+v", host, e)
		}
		r.mu.Unlock()
	}
}
