package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
)

// A SOCKS5 parent carries tunnels and plain requests. Names go to it as they are
// with socks5h, and as addresses that were checked here with socks5.
func TestSOCKSParent(t *testing.T) {
	web := webServer(t, echoHead)
	echo := echoServer(t)
	far := newRig(t, setup{allow: []string{"far.test", "127.0.0.1"}, names: map[string]string{"far.test": "127.0.0.1"}, who: Invocation{Token: "top secret"}})
	for scheme, c := range map[string]struct {
		host, lookups string
		names         map[string]string
	}{
		"socks5h": {host: "far.test", lookups: ""},
		"socks5":  {host: "near.test", lookups: "near.test", names: map[string]string{"near.test": "127.0.0.1"}},
	} {
		parent := via(t, &config.ParentProxy{HTTP: text(scheme + "://srt:top%20secret@" + far.addr)}, env())
		r := newRig(t, setup{allow: []string{c.host, "127.0.0.1"}, names: c.names, options: parent})
		far.s.SetHosts(hostLists(t, setup{allow: []string{"far.test", "127.0.0.1"}}))
		if scheme == "socks5" { // the address behind the name is listed, or the check would refuse it
			r.s.SetHosts(hostLists(t, setup{allow: []string{c.host, "127.0.0.1:" + echo, "127.0.0.1:" + web}}))
		} else {
			far.s.SetHosts(hostLists(t, setup{allow: []string{"far.test", "127.0.0.1:" + echo, "127.0.0.1:" + web}}))
		}
		conn := r.tunnel(c.host + ":" + echo)
		_, _ = io.WriteString(conn, "hello")
		expect(t, conn, "hello")
		got := r.exchange("GET http://" + c.host + ":" + web + "/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if !strings.HasSuffix(got, "GET /x HTTP/1.1\r\nHost: "+c.host+":"+web+"\r\nConnection: close\r\n\r\n") {
			t.Errorf("%s: %q", scheme, got)
		}
		if got := strings.Join(r.lookups, " "); strings.Trim(got, " ") != strings.TrimSpace(strings.Repeat(c.lookups+" ", 2)) {
			t.Errorf("%s: looked up %q", scheme, got)
		}
		if scheme != "socks5" {
			continue
		}
		// The address check holds although another machine dials.
		r.s.SetHosts(hostLists(t, setup{allow: []string{c.host}}))
		if got := r.exchange(connectTo(c.host + ":" + echo)); status(got) != "HTTP/1.1 403 resolved to a loopback address" {
			t.Errorf("%q", got)
		}
	}
	if far.lines() != "" {
		t.Error("the parent refused something")
	}
}

// What the bytes to a SOCKS parent are, for each kind of destination.
func TestSOCKSParentBytes(t *testing.T) {
	for host, want := range map[string]string{
		"a.test": "\x05\x01\x00\x03\x06a.test\x01\xbb", "192.0.2.7": "\x05\x01\x00\x01\xc0\x00\x02\x07\x01\xbb",
		"2001:db8::1": "\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\xbb",
	} {
		if got := string(socksConnectRequest(target{host, 443})); got != want {
			t.Errorf("%s: % x", host, got)
		}
	}
}

// A SOCKS parent that refuses, breaks the protocol or says nothing is the answer;
// the person who runs srt is told once, without a credential.
func TestSOCKSParentRefuses(t *testing.T) {
	long := strings.Repeat("x", 255)
	for answer, want := range map[string]string{
		"":                                "EOF",
		"HTTP/1.1 400 x\r\n":              "does not speak SOCKS5",
		"\x05\xff":                        "takes neither",
		"\x05\x01":                        "takes neither",
		"\x05\x02\x01\x01":                "refused the credentials",
		"\x05\x02\x05\x00":                "refused the credentials",
		"\x05\x02\x01":                    "EOF",
		"\x05\x00\x05\x05\x00\x01":        `answered "connection refused"`,
		"\x05\x00\x05\x02\x00\x01":        `answered "connection not allowed by ruleset"`,
		"\x05\x00\x05\x99\x00\x01":        `answered "code 153"`,
		"\x05\x00\x04\x00\x00\x01":        "does not speak SOCKS5",
		"\x05\x00\x05\x00\x00\x09":        "malformed",
		"\x05\x00\x05\x00\x00\x04abc":     "EOF",
		"\x05\x00\x05\x00\x00\x03\xffabc": "EOF",
		"silence":                         "deadline exceeded",
		"\x05\x00\x05\x00\x00\x03\xff" + long + "\x00\x00tunnel":         "",
		"\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00tunnel": "",
	} {
		port := server(t, func(c *net.TCPConn) {
			if answer != "silence" {
				_, _ = io.WriteString(c, answer)
				_ = c.CloseWrite()
			}
			_, _ = io.Copy(io.Discard, c)
		})
		var warned []string
		parent := via(t, &config.ParentProxy{HTTP: text("socks5h://user:topsecret@127.0.0.1:" + port)}, env())
		r := newRig(t, setup{allow: []string{"a.test"}, options: func(o *Options) {
			parent(o)
			o.Warn = func(s string) { warned = append(warned, s) }
		}, waits: func(w *waits) {
			if answer == "silence" {
				w.dial = 200 * time.Millisecond
			}
		}})
		conn := r.dial()
		_, _ = io.WriteString(conn, connectTo("a.test:443"))
		got := make([]byte, len(established+"tunnel"))
		n, _ := io.ReadFull(bufio.NewReader(conn), got)
		if want == "" {
			if string(got) != established+"tunnel" || len(warned) > 0 {
				t.Errorf("%q: %q, %q", answer, got[:n], warned)
			}
			_ = r.s.Close()
			continue
		}
		again := r.exchange(connectTo("a.test:443"))
		if !strings.HasPrefix(again, "HTTP/1.1 502 Bad Gateway\r\n") || !strings.HasSuffix(again, "\r\n\r\nBad Gateway\nthe upstream proxy of the sandbox (network.parentProxy.http) did not open a connection\n") {
			t.Errorf("%q: %q", answer, again)
		}
		if got := r.exchange(socksConnect("a.test", "443")); !strings.HasSuffix(got, string(socksReply(socksHostUnreachable))) {
			t.Errorf("%q: % x", answer, got)
		}
		_ = r.s.Close()
		if len(warned) != 1 || !strings.Contains(warned[0], want) || strings.Contains(warned[0], "topsecret") || !strings.HasPrefix(warned[0], "opening a tunnel to a.test:443 through the parent proxy 127.0.0.1:") {
			t.Errorf("%q: %q, want one with %q", answer, warned, want)
		}
	}
}

// A dead parent is no refusal by the destination.
func TestDeadParent(t *testing.T) {
	for _, scheme := range []string{"http", "https", "socks5h"} {
		var warned []string
		parent := via(t, &config.ParentProxy{HTTP: text(scheme + "://127.0.0.1:" + closedPort(t))}, env())
		r := newRig(t, setup{allow: []string{"a.test"}, options: func(o *Options) { parent(o); o.Warn = func(s string) { warned = append(warned, s) } }})
		if got := r.exchange(socksConnect("a.test", "443")); !strings.HasSuffix(got, string(socksReply(socksHostUnreachable))) {
			t.Errorf("%s: % x", scheme, got)
		}
		if got := r.exchange("GET http://a.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\nBad Gateway\nthe upstream proxy of the sandbox (network.parentProxy.http) did not open a connection\n") {
			t.Errorf("%s: %q", scheme, got)
		}
		_ = r.s.Close()
		if len(warned) != 1 || !strings.Contains(warned[0], "connection refused") {
			t.Errorf("%s: %q", scheme, warned)
		}
	}
}

// A parent that is asked for a plain request and wants credentials.
func TestParentWantsCredentials(t *testing.T) {
	port := webServer(t, func(_ string, _ *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 407 Who Are You\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
	})
	var warned []string
	parent := via(t, &config.ParentProxy{HTTP: text("http://127.0.0.1:" + port)}, env())
	r := newRig(t, setup{allow: []string{"a.test"}, options: func(o *Options) { parent(o); o.Warn = func(s string) { warned = append(warned, s) } }})
	got := r.exchange("GET http://a.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if status(got) != "HTTP/1.1 502 Bad Gateway" || strings.Contains(got, "Proxy-Authenticate") {
		t.Errorf("%q", got)
	}
	_ = r.s.Close()
	if len(warned) != 1 || !strings.Contains(warned[0], `it answered "HTTP/1.1 407 Who Are You"`) {
		t.Errorf("%q", warned)
	}
}

// Whatever a SOCKS proxy answers: no more is read than its answer, and a success
// is one byte for byte.
func FuzzSOCKSAnswer(f *testing.F) {
	f.Add("\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00rest", false)
	f.Add("\x05\x02\x01\x00\x05\x00\x00\x03\x01a\x00\x00rest", true)
	f.Fuzz(func(t *testing.T, raw string, login bool) {
		var user *userinfo
		if login {
			user = &userinfo{"u", "p"}
		}
		conn := &scripted{r: strings.NewReader(raw)}
		if newLeg(conn).exchangeSOCKS(target{"a.test", 1}, user) != nil {
			return
		}
		used := raw[:len(raw)-conn.r.Len()]
		if !strings.HasPrefix(used, "\x05\x00") && (!login || !strings.HasPrefix(used, "\x05\x02\x01\x00")) {
			t.Errorf("%q is taken for a success", used)
		}
	})
}

// scripted is a connection that says what it was told to say.
type scripted struct {
	net.Conn
	r *strings.Reader
}

func (c *scripted) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *scripted) Write(p []byte) (int, error) { return len(p), nil }

// The answer of an HTTP proxy to a CONNECT: what follows its head is the tunnel's.
func FuzzConnectAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nX: y\r\n\r\nrest")
	f.Add("HTTP/1.0 299 \r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		l := newLeg(&scripted{r: strings.NewReader(raw)})
		if l.exchangeConnect(target{"a.test", 1}, nil) != nil {
			return
		}
		head, rest, ok := strings.Cut(raw, "\r\n\r\n")
		if !ok || !strings.HasPrefix(head, "HTTP/1.1 2") && !strings.HasPrefix(head, "HTTP/1.0 2") || !strings.HasPrefix(rest, string(l.ahead)) {
			t.Errorf("%q gives a tunnel that begins %q", raw, l.ahead)
		}
	})
}

// What an upstream proxy says, names in its certificate among it, does not reach a
// terminal as it is.
func TestFailuresAreSanitized(t *testing.T) {
	warned := ""
	s := New(nil, Options{Warn: func(s string) { warned += s }})
	for range 2 {
		s.noteFailure(target{"a.test", 1}, &hopError{hop: "parent proxy p:1", source: "HTTPS_PROXY", doing: "connecting", err: errors.New("certificate of \x1b]0;title\a\r\nsrt: all is well")})
	}
	if strings.ContainsAny(warned, "\x1b\a\r\n") || strings.Count(warned, "HTTPS_PROXY") != 1 {
		t.Errorf("%q", warned)
	}
	s.noteFailure(target{"a.test", 1}, &hopError{source: "network.mitmProxy", err: context.Canceled})
	if strings.Contains(warned, "mitmProxy") {
		t.Errorf("an attempt that was given up is a failure: %q", warned)
	}
}
