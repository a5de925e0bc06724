package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// network 21: every spelling of an allowed address.
func TestConnectSpellings(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	for _, host := range []string{"127.0.0.1", "127.1", "0x7f.1", "0177.0.0.1", "017700000001", "2130706433", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]"} {
		r.tunnel(host + ":" + port).Close()
	}
	r.tunnel("127.0.0.1:0" + port).Close() // leading zeros of a port
}

// network 22, 23
func TestDeniedSpellings(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"[::ffff:127.0.0.1]"}, deny: []string{"169.254.169.254", "127.0.0.1"},
		options: func(o *Options) {
			o.Ask = func(_ context.Context, q AskRequest) (AskDecision, error) {
				t.Errorf("asked about %+v", q)
				return AskDecision{Allow: true}, nil
			}
		},
	})
	for _, host := range []string{"2852039166", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1."} {
		if got := r.exchange(connectTo(host + ":80")); status(got) != "HTTP/1.1 403 host is on the deny list" {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// network 24, 25, 29, 30, 31, 34
func TestConnectNames(t *testing.T) {
	var dialed atomic.Value
	r := newRig(t, setup{
		allow: []string{"api.test", "_dmarc.example.com"}, names: map[string]string{"api.test": "192.0.2.1", "_dmarc.example.com": "192.0.2.1"},
		options: func(o *Options) {
			o.Dial = func(_ context.Context, address string) (net.Conn, error) {
				dialed.Store(address)
				return nil, errors.New("not in a test")
			}
		},
	})
	for target, want := range map[string]string{
		"Api.Test.:443":                       "HTTP/1.1 502 Bad Gateway",
		"_dmarc.example.com:443":              "HTTP/1.1 502 Bad Gateway",
		"api.test..:443":                      "HTTP/1.1 403 malformed host",
		"1.2.3.256:80":                        "HTTP/1.1 403 malformed host",
		"foo.123:80":                          "HTTP/1.1 403 malformed host",
		"08.1.1.1:80":                         "HTTP/1.1 403 malformed host",
		strings.Repeat("a.", 127) + "aa:80":   "HTTP/1.1 403 malformed host",
		"api.test\xe9:443":                    "HTTP/1.1 400 Bad Request",
		strings.Repeat("a.", 126) + "a:80":    "HTTP/1.1 403 host is not on the allow list",
		strings.Repeat("a", 64) + ".test:443": "HTTP/1.1 403 malformed host",
	} {
		if got := r.exchange(connectTo(target)); status(got) != want {
			t.Errorf("%s: %q", target, got)
		}
	}
	if got := dialed.Load(); got != "192.0.2.1:443" {
		t.Errorf("dialed %v", got)
	}
	for _, name := range r.lookups {
		if name != "api.test" && name != "_dmarc.example.com" {
			t.Errorf("%q was looked up", name)
		}
	}
}

// network 26, 27
func TestConnectTargets(t *testing.T) {
	r := newRig(t, setup{allow: []string{"foo.test", "[::1]"}})
	for _, target := range []string{"foo", "foo:0", "foo:65536", "foo:22x", ":443", "http://foo:443/", "foo:443/", "2001:db8::1:443", "127.0.0.1:", "foo:-1", "foo:+1", "u:p@foo:1", "[::1", "[::1]", "[]:80",
		"::1:80", "[name]:80", "[::1]80", "foo]:80", "[[::1]]:80", "foo:1:2", "foo:00000000000443"} {
		if got := r.exchange(connectTo(target)); status(got) != "HTTP/1.1 400 Bad Request" {
			t.Errorf("%s: %q", target, got)
		}
	}
	if got := r.lines(); got != "" {
		t.Errorf("recorded:\n%s", got)
	}
	for target, line := range map[string]string{
		"[::1%25lo]:22": "[::1%25lo]:22", "u@foo:443": "u@foo:443", "%65vil.test:443": "%65vil.test:443", "*:80": "*:80", "foo<b>:80": "foob:80",
	} {
		got := r.exchange(connectTo(target))
		if status(got) != "HTTP/1.1 403 malformed host" || !strings.Contains(got, "X-Proxy-Error: blocked-by-allowlist\r\n") {
			t.Errorf("%s: %q", target, got)
		}
		if got := r.lines(); got != "deny network-outbound "+line+" (malformed host)" {
			t.Errorf("%s: %q", target, got)
		}
	}
}

// cli 71, network 42, 43, 49: what a refusal says, and that it is recorded once.
func TestConnectRefusal(t *testing.T) {
	r := newRig(t, setup{allow: []string{"example.com:443"}, deny: []string{"github.com", "blank.test"}, network: func(n *config.Network) {
		n.DeniedDomainReasons = map[string]string{"github.com": "café <b> no", "blank.test": "\u200b"}
	}})
	got := r.exchange(connectTo("Off.Test.:443"))
	want := "HTTP/1.1 403 host is not on the allow list\r\nContent-Type: text/plain\r\nX-Proxy-Error: blocked-by-allowlist\r\nContent-Length: 124\r\nConnection: close\r\n\r\n" +
		"Connection blocked by network allowlist\nhost is not on the allow list\nTo allow it: add \"off.test\" to network.allowedDomains\n"
	if got != want {
		t.Errorf("%q", got)
	}
	r.mu.Lock()
	e := r.events[0]
	r.mu.Unlock()
	if e.Line != "deny network-outbound off.test:443 (host is not on the allow list)" || e.Op != "network-outbound" || e.Target != "off.test:443" || e.Spelling != "Off.Test." ||
		e.Setting != `add "off.test" to network.allowedDomains` || e.Rule != "network.allowedDomains" || e.CommandID != "id" || e.Command != "cmd" || e.Time.IsZero() {
		t.Errorf("%+v", e)
	}
	if got := r.lines(); strings.Count(got, "\n") != 0 {
		t.Errorf("recorded:\n%s", got)
	}
	for target, c := range map[string][2]string{
		"github.com:22":       {"HTTP/1.1 403 caf? b no", "deny network-outbound github.com:22 (café b no)"},
		"blank.test:1":        {"HTTP/1.1 403 host is on the deny list", "deny network-outbound blank.test:1 (host is on the deny list)"},
		"example.com:22":      {"HTTP/1.1 403 host is not on the allow list", "deny network-outbound example.com:22 (host is not on the allow list)"},
		"[2001:DB8:0::1]:443": {"HTTP/1.1 403 host is not on the allow list", "deny network-outbound [2001:db8::1]:443 (host is not on the allow list)"},
	} {
		if got := r.exchange(connectTo(target)); status(got) != c[0] {
			t.Errorf("%s: %q", target, got)
		}
		if got := r.lines(); got != c[1] {
			t.Errorf("%s: %q", target, got)
		}
	}
}

// A refusal is answered at once, also to a client that ended its side.
func TestRefusalAfterHalfClose(t *testing.T) {
	// Where a refusal takes longer than this, the client counts as gone.
	r := newRig(t, setup{waits: func(w *waits) { w.patience = testutil.Patience }})
	for range 20 {
		conn := r.dial()
		_, _ = io.WriteString(conn, connectTo("off.test:443"))
		_ = conn.CloseWrite()
		if got, _ := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 403 ") {
			t.Fatalf("%q", got)
		}
	}
}

// network 90, 95: each direction of a tunnel ends on its own.
func TestHalfClose(t *testing.T) {
	port := server(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c) // until the client ended its side
		fmt.Fprintf(c, "%d bytes", len(all))
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.tunnel("127.0.0.1:" + port)
	_, _ = conn.Write(make([]byte, 100_000))
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "100000 bytes" || err != nil {
		t.Errorf("%q, %v", got, err)
	}

	ended := make(chan string, 1)
	port = server(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		ended <- string(all)
	})
	conn = r.tunnel("127.0.0.1:" + port)
	if got, _ := io.ReadAll(conn); string(got) != "bye" {
		t.Errorf("%q", got)
	}
	_, _ = io.WriteString(conn, "still here")
	conn.Close()
	if got := <-ended; got != "still here" {
		t.Errorf("the server got %q", got)
	}
}

// network 96: a slow reader gets everything that a server sent before it closed.
func TestSlowReader(t *testing.T) {
	const size = 4 << 20
	port := server(t, func(c *net.TCPConn) { _, _ = c.Write(make([]byte, size)) })
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	for _, open := range []func() net.Conn{
		func() net.Conn { return r.tunnel("127.0.0.1:" + port) },
		func() net.Conn { return r.socksTunnel("127.0.0.1", port) },
	} {
		conn := open()
		buf, total := make([]byte, 256<<10), 0
		for {
			n, err := conn.Read(buf)
			total += n
			if err != nil {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		if total != size {
			t.Errorf("%d of %d bytes", total, size)
		}
	}
}

// network 70, 97
func TestConnectFailures(t *testing.T) {
	r := newRig(t, setup{allow: []string{"127.0.0.1", "unknown.test", "empty.test"}, names: map[string]string{"empty.test": ""}})
	for _, target := range []string{"127.0.0.1:" + closedPort(t), "unknown.test:80", "empty.test:80"} {
		if got := r.exchange(connectTo(target)); status(got) != "HTTP/1.1 502 Bad Gateway" {
			t.Errorf("%s: %q", target, got)
		}
	}
	for _, name := range []string{"unknown.test", "empty.test"} {
		if got := r.exchange(socksConnect(name, "80")); !strings.HasSuffix(got, string(socksReply(socksHostUnreachable))) {
			t.Errorf("%s: % x", name, got)
		}
	}
	if got := r.lines(); got != "" {
		t.Errorf("recorded:\n%s", got)
	}
}

// A server that says nothing is given up in time, and that is what is said.
func TestConnectTimeout(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"127.0.0.1", "two.test"}, names: map[string]string{"two.test": "192.0.2.1 192.0.2.2"}, waits: func(w *waits) { w.dial = 50 * time.Millisecond },
		options: func(o *Options) {
			o.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
	})
	for _, target := range []string{"127.0.0.1:80", "two.test:80"} {
		if got := r.exchange(connectTo(target)); !strings.HasSuffix(got, "\r\n\r\nBad Gateway\nthe server did not answer in time\n") {
			t.Errorf("%s: %q", target, got)
		}
		if got := r.exchange("GET http://" + target + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\nBad Gateway\nthe server did not answer in time\n") {
			t.Errorf("%s: %q", target, got)
		}
	}
	for _, line := range r.accessLines(4) {
		if !strings.Contains(line, ` allow {`) || !strings.Contains(line, ` "timeout" `) {
			t.Error(line)
		}
	}
}

// network 98: lists that change hold for the next connection.
func TestLiveUpdate(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	old := r.tunnel("127.0.0.1:" + port)
	r.s.SetHosts(hostLists(t, setup{}))
	if got := r.exchange(connectTo("127.0.0.1:" + port)); status(got) != "HTTP/1.1 403 host is not on the allow list" {
		t.Errorf("%q", got)
	}
	_, _ = io.WriteString(old, "hi")
	expect(t, old, "hi")
	r.s.SetHosts(nil)
	if got := r.exchange(connectTo("127.0.0.1:" + port)); status(got) != "HTTP/1.1 403 sandbox policy unavailable" {
		t.Errorf("%q", got)
	}
}
