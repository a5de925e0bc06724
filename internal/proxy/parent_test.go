package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// via makes options with a parent proxy.
func via(t testing.TB, cfg *config.ParentProxy, lookup func(string) (string, bool)) func(*Options) {
	t.Helper()
	p, err := NewParent(cfg, lookup, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Parent = p }
}

func text(s string) *string { return &s }

// network 77, 78, 88: which proxies are used.
func TestParentSources(t *testing.T) {
	for name, c := range map[string]struct {
		cfg           *config.ParentProxy
		env           []string
		http, https   string // addresses
		warned, fails string
	}{
		"nothing":                       {},
		"ALL_PROXY alone":               {env: []string{"ALL_PROXY", "http://p:1"}},
		"http for both":                 {env: []string{"HTTP_PROXY", "http://p:1"}, http: "p:1", https: "p:1"},
		"lower case":                    {env: []string{"http_proxy", "http://p:1", "https_proxy", "q:2"}, http: "p:1", https: "q:2"},
		"empty hides":                   {env: []string{"HTTP_PROXY", "", "http_proxy", "http://p:1"}},
		"empty https":                   {env: []string{"HTTP_PROXY", "http://p:1", "HTTPS_PROXY", ""}, http: "p:1"},
		"https alone":                   {env: []string{"https_proxy", "host:3128"}, https: "host:3128"},
		"upper case first":              {env: []string{"http_proxy", "http://low:1", "HTTP_PROXY", "http://up:1"}, http: "up:1", https: "up:1"},
		"configured first":              {cfg: &config.ParentProxy{HTTP: text("http://c:1")}, env: []string{"HTTP_PROXY", "http://e:1", "HTTPS_PROXY", "http://e:2"}, http: "c:1", https: "e:2"},
		"ports":                         {cfg: &config.ParentProxy{HTTP: text("HTTP://c"), HTTPS: text("https://C.Example./path?q#f")}, http: "c:80", https: "c.example:443"},
		"addresses":                     {cfg: &config.ParentProxy{HTTP: text("http://[::1]:8"), HTTPS: text("10.0.0.1:3128")}, http: "[::1]:8", https: "10.0.0.1:3128"},
		"configured socks4":             {cfg: &config.ParentProxy{HTTP: text("socks4://u:secret@h:1")}, fails: "network.parentProxy.http: only http, https, socks5 and socks5h proxies can be used"},
		"configured nonsense":           {cfg: &config.ParentProxy{HTTPS: text("http://h:99999")}, fails: "network.parentProxy.https: it is not the URL of a proxy"},
		"configured line break":         {cfg: &config.ParentProxy{HTTPS: text("http://h\r\nX: y")}, fails: "network.parentProxy.https: it is not the URL of a proxy"},
		"socks4 in environment":         {env: []string{"HTTPS_PROXY", "socks4://u:secret@h:1"}, warned: "HTTPS_PROXY: only http, https, socks5 and socks5h proxies can be used; srt connects directly"},
		"said once":                     {env: []string{"HTTP_PROXY", "socks4://u:secret@h:1"}, warned: "HTTP_PROXY: only http, https, socks5 and socks5h proxies can be used; srt connects directly"},
		"socks":                         {env: []string{"HTTP_PROXY", "socks5://u:p@h", "HTTPS_PROXY", "SOCKS5H://[::1]:9"}, http: "h:1080", https: "[::1]:9"},
		"socks without a name":          {cfg: &config.ParentProxy{HTTP: text("socks5://:p@h")}, fails: "network.parentProxy.http: a SOCKS proxy takes a user name of 1 to 255 bytes and a password of up to 255"},
		"noProxy alone changes nothing": {cfg: &config.ParentProxy{NoProxy: text("a.test")}, env: []string{"HTTP_PROXY", "http://p:1", "NO_PROXY", "env.test", "no_proxy", "env.test"}, http: "p:1", https: "p:1"},
	} {
		warned := ""
		p, err := NewParent(c.cfg, env(c.env...), func(s string) { warned += s })
		if err != nil || c.fails != "" {
			if err == nil || err.Error() != c.fails {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var http, https string
		if p != nil && p.http != nil {
			http = p.http.address
		}
		if p != nil && p.https != nil {
			https = p.https.address
		}
		if c.cfg != nil && c.cfg.NoProxy != nil && (!p.bypass.matches("x.a.test") || p.bypass.matches("env.test")) {
			t.Errorf("%s: %+v", name, p.bypass)
		}
		if http != c.http || https != c.https || warned != c.warned || (p == nil) != (http == "" && https == "") {
			t.Errorf("%s: %q %q, warned %q", name, http, https, warned)
		}
	}
}

// network 74: user information becomes credentials.
func TestParentCredentials(t *testing.T) {
	for url, want := range map[string]string{
		"http://us%40er:p%3aw@h:1": basic("us@er:p:w"), "http://user@h": basic("user:"), "http://a:b%zz@h": basic("a:b%zz"), "http://a:b+c%20d@h": basic("a:b+c d"), "u:p@h:1": basic("u:p"), "http://h": "",
	} {
		p, err := parseUpstream(url)
		if err != nil || want == "" && p.auth != nil || want != "" && (p.auth == nil || *p.auth != field{"Proxy-Authorization", want}) {
			t.Errorf("%s: %+v, %v", url, p, err)
		}
	}
}

// network 79, 80
func TestBypass(t *testing.T) {
	for list, hosts := range map[string]map[string]bool{
		"":      {"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "a.localhost": false, "0.0.0.0": false, "a.test": false},
		" * , ": {"a.test": true, "10.0.0.1": true},
		"example.com, .dot.test,*.star.test:8080 ,PORT.test:1,": {
			"example.com": true, "a.b.example.com": true, "xexample.com": false, "dot.test": true, "a.dot.test": true, "star.test": true, "a.star.test": true, "port.test": true, "test": false},
		"com":                           {"a.com": true, "com": true, "com.test": false},
		"a.com b.com":                   {"a.com": false, "b.com": false},
		"a.com;b.com":                   {"a.com": false, "b.com": false},
		"*example.com,trailing.test.":   {"example.com": false, "xexample.com": false, "trailing.test": false},
		"10.0.0.0/,11.0.0.0/999,12./8":  {"10.0.0.1": false, "11.0.0.1": false, "12.0.0.1": false},
		"10.0.0.0/8,2001:db8::/32":      {"10.255.0.1": true, "11.0.0.1": false, "2001:db8::5": true, "2001:db9::5": false, "10.x.test": false},
		"::ffff:10.0.0.0/104":           {"10.1.2.3": true, "11.0.0.1": false},
		"::ffff:10.0.0.1":               {"10.0.0.1": true, "10.0.0.2": false},
		"[::2]:80,[2001:db8::1]":        {"::2": true, "2001:db8::1": true, "::3": false},
		"fe80::1%eth0,[fe80::2%eth0]:1": {"fe80::1": true, "fe80::2": true},
		"10.,192.168,<local>,.":         {"10.0.0.1": false, "192.168.0.1": false, "a.test": false},
	} {
		b := parseBypass(list)
		for host, want := range hosts {
			if b.matches(host) != want {
				t.Errorf("%q: %s is %v", list, host, !want)
			}
		}
	}
}

// parentServer is an upstream proxy that answers tunnels with what it was asked.
func parentServer(t *testing.T) string {
	return webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if strings.HasPrefix(head, "CONNECT ") {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n%s", strings.ReplaceAll(head, "\r\n", "|"))
			_, _ = io.Copy(w, r)
			return
		}
		echoHead(head, r, w)
	})
}

// network 74, 82, 83
func TestThroughParent(t *testing.T) {
	port := parentServer(t)
	r := newRig(t, setup{
		allow: []string{"a.test", "[2001:db8::1]"}, options: via(t, &config.ParentProxy{HTTP: text("http://us%40er:p%3aw@127.0.0.1:" + port)}, env("NO_PROXY", "other.test")),
	})
	auth := "Proxy-Authorization: " + basic("us@er:p:w")
	for target, want := range map[string]string{"A.Test.:443": "a.test:443", "[2001:DB8:0::1]:22": "[2001:db8::1]:22"} {
		for _, raw := range []string{authorized(target, "Basic secret"), socksConnect(strings.Trim(target[:strings.LastIndex(target, ":")], "[]"), target[strings.LastIndex(target, ":")+1:])} {
			conn := r.dial()
			_, _ = io.WriteString(conn, raw)
			br := bufio.NewReader(conn)
			if strings.HasPrefix(raw, "CONNECT") {
				expect(t, br, established)
			} else {
				expect(t, br, "\x05\x00"+string(socksReply(socksSucceeded)))
			}
			_, _ = io.WriteString(conn, "payload")
			_ = conn.CloseWrite()
			if got, _ := io.ReadAll(br); string(got) != "CONNECT "+want+" HTTP/1.1|Host: "+want+"|"+auth+"||payload" {
				t.Errorf("%s: %q", target, got)
			}
		}
	}
	got := r.exchange("GET http://A.test.:8080/x?q HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic secret\r\nConnection: close\r\n\r\n")
	if !strings.HasSuffix(got, "\r\n\r\nGET http://a.test:8080/x?q HTTP/1.1\r\nHost: a.test:8080\r\n"+auth+"\r\nConnection: close\r\n\r\n") {
		t.Errorf("%q", got)
	}
	if got := r.exchange(connectTo("off.test:443")); status(got) != "HTTP/1.1 403 host is not on the allow list" {
		t.Errorf("an unlisted host through the parent: %q", got)
	}
	if len(r.lookups) != 0 {
		t.Errorf("looked up %v", r.lookups)
	}
}

// network 75, 76: each kind of destination has its proxy, and no other is tried.
func TestParentForEachScheme(t *testing.T) {
	direct := webServer(t, echoHead)
	resolve := func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
	}
	u := setup{allow: []string{"a.test", "127.0.0.1"}}
	https := via(t, &config.ParentProxy{HTTPS: text("127.0.0.1:" + parentServer(t))}, env())
	u.options = func(o *Options) { https(o); resolve(o) }
	r := newRig(t, u)
	get := "GET http://a.test:" + direct + "/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if got := r.exchange(get); !strings.HasSuffix(got, "GET /x HTTP/1.1\r\nHost: a.test:"+direct+"\r\nConnection: close\r\n\r\n") {
		t.Errorf("%q", got)
	}
	conn := r.tunnel("a.test:443")
	expect(t, conn, "CONNECT a.test:443 HTTP/1.1|")

	both := via(t, &config.ParentProxy{HTTP: text("127.0.0.1:" + closedPort(t)), HTTPS: text("127.0.0.1:" + parentServer(t)), NoProxy: text("direct.test")}, env())
	u.allow = append(u.allow, "direct.test")
	u.options = func(o *Options) { both(o); resolve(o) }
	r = newRig(t, u)
	if got := r.exchange(get); status(got) != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("the dead parent was passed by: %q", got)
	}
	r.tunnel("a.test:443")
	for _, host := range []string{"direct.test", "127.0.0.1"} {
		if got := r.exchange(strings.Replace(get, "a.test", host, 1)); status(got) != "HTTP/1.1 200 OK" {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// network 81, 147: what a parent answers instead of a tunnel.
func TestParentRefuses(t *testing.T) {
	var log bytes.Buffer
	for answer, fails := range map[string]bool{
		"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n": true, "HTTP/1.1 100 Continue\r\n\r\n": true, "HTTP/2 200 OK\r\n\r\n": true, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\n": true,
		"": true, "nonsense\r\n\r\n": true, "HTTP/1.1 199 x\r\n\r\n": true, "HTTP/1.1 300 x\r\n\r\n": true, "HTTP/1.0 299 x\r\n\r\n": false, "HTTP/1.1 200 OK\n\n": true,
	} {
		port := webServer(t, func(_ string, _ *bufio.Reader, w io.Writer) { _, _ = io.WriteString(w, answer) })
		parent := via(t, &config.ParentProxy{HTTP: text("http://user:topsecret@127.0.0.1:" + port)}, env())
		r := newRig(t, setup{allow: []string{"a.test"}, options: func(o *Options) {
			parent(o)
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}})
		if got := r.exchange(connectTo("a.test:443")); (status(got) == "HTTP/1.1 502 Bad Gateway") != fails {
			t.Errorf("%.40q: %q", answer, got)
		}
		if strings.HasPrefix(answer, "HTTP/1.1 407") {
			got := r.exchange("GET http://a.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if status(got) != "HTTP/1.1 502 Bad Gateway" {
				t.Errorf("%q", got)
			}
		}
		if r.lines() != "" || len(r.lookups) > 0 {
			t.Errorf("%.40q: recorded or looked up", answer)
		}
		_ = r.s.Close()
	}
	if s := log.String(); !strings.Contains(s, "it answered") || strings.Contains(s, "topsecret") || strings.Contains(s, strings.TrimPrefix(basic("user:topsecret"), "Basic ")) {
		t.Errorf("log:\n%s", s)
	}
}

// A parent that says nothing is given up, and so is one that trickles.
func TestParentIsSilent(t *testing.T) {
	for name, talk := range map[string]func(net.Conn){
		"silent": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"trickling": func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for err == nil {
				time.Sleep(5 * time.Millisecond)
				_, err = io.WriteString(c, "X: y\r\n")
			}
		},
	} {
		port := server(t, func(c *net.TCPConn) { talk(c) })
		r := newRig(t, setup{allow: []string{"a.test"}, options: via(t, &config.ParentProxy{HTTP: text("127.0.0.1:" + port)}, env()), waits: func(w *waits) { w.dial = 60 * time.Millisecond }})
		if got := r.exchange(connectTo("a.test:443")); status(got) != "HTTP/1.1 502 Bad Gateway" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An https parent is verified, and the tunnel through it works.
func TestTLSParent(t *testing.T) {
	ts := httptest.NewUnstartedServer(nil) // for its certificate
	ts.StartTLS()
	cert, leaf := ts.TLS.Certificates[0], ts.Certificate()
	ts.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	testutil.Serve(t, ln, func(conn net.Conn) {
		if h, err := readHead(bufio.NewReader(conn)); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\ntunnel to %s", h.start[1])
		}
	})
	parent := via(t, &config.ParentProxy{HTTPS: text("https://" + ln.Addr().String())}, env())
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	for want, pool := range map[string]*x509.CertPool{established + "tunnel to a.test:443": roots, "HTTP/1.1 502 Bad Gateway": x509.NewCertPool()} {
		r := newRig(t, setup{allow: []string{"a.test"}, options: func(o *Options) { parent(o); o.Roots = pool }})
		if got := r.exchange(connectTo("a.test:443")); !strings.HasPrefix(got, want) {
			t.Errorf("%q", got)
		}
	}
}

func FuzzBypass(f *testing.F) {
	f.Add("*.a.test, 10.0.0.0/8,[::1]:80", "a.test")
	f.Add("::ffff:1.2.3.4/96,;", "1.2.3.4")
	f.Fuzz(func(t *testing.T, list, host string) {
		b := parseBypass(list)
		if !b.matches(host) {
			return
		}
		a, err := netip.ParseAddr(host)
		if host == "localhost" || err == nil && (a.IsLoopback() || len(b.ranges) > 0) || b.everything {
			return
		}
		for d := range b.domains {
			if host == d || strings.HasSuffix(host, "."+d) {
				return
			}
		}
		t.Errorf("%q sends %q around the proxy", list, host)
	})
}

func FuzzUpstream(f *testing.F) {
	f.Add("http://u:p@h:1/x")
	f.Add("h:3128")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseUpstream(s)
		if err != nil {
			return
		}
		if _, _, err := net.SplitHostPort(p.address); err != nil || p.auth != nil && strings.ContainsAny(p.auth.value, "\r\n") {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
