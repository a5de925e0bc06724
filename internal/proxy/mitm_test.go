package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// network 84, 85, 87: hosts of the MITM list go to the socket and nowhere else.
func TestMITM(t *testing.T) {
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	testutil.Serve(t, ln, func(conn net.Conn) {
		if h, err := readHead(bufio.NewReader(conn)); err == nil {
			echo := fmt.Sprint(h.start[0], " ", h.start[1], " ", h.fields)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n%s", echo)
		}
	})
	m, err := NewMITM(&config.MITMProxy{SocketPath: path, Domains: []string{"*.m.test", "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	parent := via(t, &config.ParentProxy{HTTP: text("127.0.0.1:" + untouched(t))}, env())
	r := newRig(t, setup{allow: []string{"*.m.test", "127.0.0.1"}, options: func(o *Options) { o.MITM = m; parent(o) }})
	for target, want := range map[string]string{"A.m.test.:443": "a.m.test:443", "127.1:80": "127.0.0.1:80", "0x7f.0.0.1:80": "127.0.0.1:80", "127.0.0.1.:80": "127.0.0.1:80"} {
		if got := r.exchange(authorized(target, "Basic secret")); !strings.HasSuffix(got, "CONNECT "+want+" [{Host "+want+"}]") {
			t.Errorf("%s: %q", target, got)
		}
	}
	if got := r.exchange(socksConnect("A.m.test", "22")); !strings.HasSuffix(got, "CONNECT a.m.test:22 [{Host a.m.test:22}]") {
		t.Errorf("%q", got)
	}
	for uri, want := range map[string]string{"http://A.m.test/x?q": "http://a.m.test/x?q [{Host a.m.test} ", "https://A.m.test/x": "http://a.m.test:443/x [{Host a.m.test:443} "} {
		got := r.exchange("GET " + uri + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "GET "+want) {
			t.Errorf("%s: %q", uri, got)
		}
	}
	ln.Close()
	if got := r.exchange(connectTo("a.m.test:443")); status(got) != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("%q", got)
	}
	if got := r.exchange(socksConnect("a.m.test", "443")); !strings.HasSuffix(got, string(socksReply(socksHostUnreachable))) {
		t.Errorf("% x", got)
	}
	if len(r.lookups) != 0 || r.lines() != "" {
		t.Errorf("looked up %v", r.lookups)
	}
	r.s.Update(r.s.hosts.Load().Hosts, nil)
	if m.handles("a.m.test") != true || r.s.hosts.Load().mitm.handles("a.m.test") {
		t.Error("the list was not replaced")
	}
	if _, err := NewMITM(&config.MITMProxy{SocketPath: path, Domains: []string{"a.test:80"}}); err == nil || !strings.HasPrefix(err.Error(), "network.mitmProxy.domains[0]: ") {
		t.Error(err)
	}
}

// network 89: nothing but a canonical host is written into a request.
func TestTunnelRequestIsOneLine(t *testing.T) {
	for _, bad := range []target{{"a\r\nX: y", 1}, {"A.test", 1}, {"a.test", 0}, {"a.test", 65536}, {"", 1}, {"a b", 1}} {
		for kind, ask := range map[string]func(*leg) error{
			"HTTP":  func(l *leg) error { return l.exchangeConnect(bad, nil) },
			"SOCKS": func(l *leg) error { return l.exchangeSOCKS(bad, nil) },
		} {
			near, far := net.Pipe()
			got := make(chan []byte)
			go func() { b, _ := io.ReadAll(far); got <- b }()
			l := newLeg(near)
			if l.negotiate(t.Context(), func() error { return ask(l) }) == nil {
				t.Errorf("%s: %+v was asked for", kind, bad)
			}
			if b := <-got; len(b) > 0 {
				t.Errorf("%s: %+v: sent %q", kind, bad, b)
			}
		}
	}
}
