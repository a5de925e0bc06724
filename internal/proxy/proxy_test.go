package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a filter with one listener, and what it refused.
type rig struct {
	t      testing.TB
	s      *Session
	addr   string
	mu     sync.Mutex
	events []violation.Event
}

func newRig(t testing.TB, allow, deny []string, change func(*Options)) *rig {
	t.Helper()
	c := config.Default()
	c.Network.AllowedDomains, c.Network.DeniedDomains = allow, deny
	c.Network.DeniedDomainReasons = map[string]string{"denied.example": "café <b> no"}
	hosts, err := policy.NewHosts(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	o := Options{Record: func(e violation.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}, OwnAddresses: func() []netip.Addr { return nil }}
	if change != nil {
		change(&o)
	}
	r.s = New(hosts, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.s.Serve(ln, Invocation{ID: "id", Command: "cmd"})
	}()
	t.Cleanup(func() {
		if err := r.s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return r
}

func (r *rig) lines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.events {
		all = append(all, e.Line)
	}
	return strings.Join(all, "\n")
}

func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn.(*net.TCPConn)
}

// exchange sends raw bytes and returns all that comes back until the end.
func (r *rig) exchange(raw string) string {
	r.t.Helper()
	conn := r.dial()
	_, _ = io.WriteString(conn, raw)
	back, _ := io.ReadAll(conn)
	return string(back)
}

// server runs handle for each connection and returns its address.
func server(t testing.TB, handle func(*net.TCPConn)) (host string, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wait.Wait() })
	host, port, _ = net.SplitHostPort(ln.Addr().String())
	return host, port
}

// webServer answers each request on a connection with what it got.
func webServer(t testing.TB, respond func(head string, body *bufio.Reader, w io.Writer)) string {
	_, port := server(t, func(conn *net.TCPConn) {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		r := bufio.NewReader(conn)
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if line == "\r\n" {
				break
			}
		}
		respond(head.String(), r, conn)
	})
	return port
}

func echoHead(head string, _ *bufio.Reader, w io.Writer) {
	fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
}

func TestConnect(t *testing.T) {
	_, port := server(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	r := newRig(t, []string{"127.0.0.1:" + port, "name.example"}, []string{"denied.example"}, func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("::1")}, nil
		}
	})
	conn := r.dial()
	fmt.Fprintf(conn, "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\nearly", port)
	_ = conn.CloseWrite()
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}

	conn = r.dial() // half-close: the answer still arrives
	fmt.Fprintf(conn, "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\n", port)
	br := bufio.NewReader(conn)
	if line, _ := br.ReadString('\n'); line != "HTTP/1.1 200 Connection Established\r\n" {
		t.Fatalf("%q", line)
	}
	_, _ = br.ReadString('\n')
	_, _ = io.WriteString(conn, "hello")
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(br); string(got) != "hello" {
		t.Errorf("after the half-close: %q", got)
	}

	for target, want := range map[string]string{
		"denied.example:443": "HTTP/1.1 403 caf? b no\r\n", "other.example:443": "HTTP/1.1 403 host is not on the allow list\r\n", "127.0.0.1:1": "HTTP/1.1 403 host is not on the allow list\r\n",
		"name.example:443": "HTTP/1.1 403 resolved to a loopback address / a link-local address\r\n",
		"127.1:1":          "HTTP/1.1 403 ", "a..b:80": "HTTP/1.1 403 malformed host\r\n",
	} {
		got := r.exchange("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", target, got)
		}
		if !strings.Contains(got, "X-Proxy-Error: blocked-by-") {
			t.Errorf("%s: no tag in %q", target, got)
		}
	}
	if got := r.lines(); !strings.Contains(got, "deny network-outbound denied.example:443 (café <b> no)") || !strings.Contains(got, "deny network-outbound name.example:443 (resolved to a loopback address / a link-local address)") {
		t.Errorf("recorded:\n%s", got)
	}
	if strings.Contains(r.lines(), "169.254") {
		t.Error("an address is shown")
	}
}

func TestMalformedRequests(t *testing.T) {
	port := webServer(t, echoHead)
	r := newRig(t, []string{"127.0.0.1"}, nil, nil)
	for _, target := range []string{"127.0.0.1", ":" + port, "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:1/x", "u:p@127.0.0.1:1", "http://127.0.0.1:1", "[::1", "[]:80", "::1:80", "*:80", "[name]:80", "%31:80"} {
		if got := r.exchange("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("CONNECT %s: %q", target, got)
		}
	}
	base := "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n"
	for name, raw := range map[string]string{
		"two lengths":        base + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"length and chunked": base + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"other coding":       base + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"signed length":      base + "Content-Length: +1\r\n\r\nx",
		"folded line":        base + "X: a\r\n b\r\n\r\n",
		"bare line feed":     base + "X: a\n\r\n",
		"blank before colon": base + "X : a\r\n\r\n",
		"no host":            "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\n\r\n",
		"two hosts":          base + "Host: y\r\n\r\n",
		"origin form":        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"other scheme":       "GET ftp://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"other version":      "GET http://127.0.0.1:" + port + "/ HTTP/9.9\r\nHost: x\r\n\r\n",
		"byte above ASCII":   "GET http://127.0.0.1:" + port + "/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
		"control in a value": base + "X: a\x01b\r\n\r\n",
		"TLS":                "\x16\x03\x01\x00\x05hello\r\n\r\n",
		"HTTP/2 preface":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"garbage":            "GARBAGE\r\n\r\n",
	} {
		if got := r.exchange(raw); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := r.exchange(base + "X: " + strings.Repeat("a", 20<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("large head: %.60q", got)
	}
	if got := r.exchange(base + "Connection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("a good request afterwards: %q", got)
	}
}

func TestForward(t *testing.T) {
	port := webServer(t, echoHead)
	other := webServer(t, echoHead)
	r := newRig(t, []string{"127.0.0.1:" + port}, nil, nil)
	get := func(p, extra string) string {
		return "GET http://user:pw@127.1:" + p + "/a/../b?q=%2e HTTP/1.1\r\nHost: evil.example\r\nX-Keep: 1\r\nx-keep: 2\r\nX-Drop: 3\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy_Authorization: secret\r\nConnection: X-Drop\r\n" + extra + "\r\n"
	}
	// Policy is applied to every request of one connection.
	got := r.exchange(get(port, "") + get(other, "") + get(port, "Connection: close\r\n"))
	if n := strings.Count(got, "HTTP/1.1 200 OK"); n != 2 {
		t.Errorf("%d answers:\n%s", n, got)
	}
	if !strings.Contains(got, "HTTP/1.1 403 Forbidden") || !strings.Contains(got, "Connection blocked by network allowlist") {
		t.Errorf("the second request was not refused:\n%s", got)
	}
	if !strings.Contains(got, "GET /a/../b?q=%2e HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\nX-Keep: 1\r\nx-keep: 2\r\n") {
		t.Errorf("the request changed on the way:\n%s", got)
	}
	for _, secret := range []string{"secret", "c2VjcmV0", "X-Drop", "evil.example", "user:pw"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q reached the server:\n%s", secret, got)
		}
	}
}

func TestBodies(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		var body bytes.Buffer
		bw := bufio.NewWriter(&body)
		if strings.Contains(head, "Transfer-Encoding") {
			_ = copyDecoded(bw, r)
		} else {
			_, _ = io.CopyN(&body, r, 5)
		}
		switch {
		case strings.Contains(head, "/chunked"):
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n")
		case strings.Contains(head, "/close"):
			fmt.Fprintf(w, "HTTP/1.0 200 OK\r\n\r\nuntil-end")
		case strings.Contains(head, "/short"):
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
		case strings.Contains(head, "/excess"):
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcEXCESS")
		case strings.Contains(head, "/early"):
			fmt.Fprintf(w, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
		case strings.Contains(head, "/bad"):
			fmt.Fprintf(w, "HTTP/1.1 099 x\r\n\r\n")
		case strings.Contains(head, "/switch"):
			fmt.Fprintf(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		default:
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", body.Len(), body.String())
		}
	})
	r := newRig(t, []string{"127.0.0.1"}, nil, nil)
	send := func(path, extra, body string) string {
		return r.exchange("POST http://127.0.0.1:" + port + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + extra + "\r\n" + body)
	}
	const sized, chunked = "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct{ got, want string }{
		"sized":       {send("/", sized, "hello"), "\r\n\r\nhello"},
		"chunked":     {send("/", chunked, "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), "\r\n\r\nhello"},
		"response":    {send("/chunked", sized, "hello"), "3\r\nabc\r\n0\r\n\r\n"},
		"close":       {send("/close", sized, "hello"), "9\r\nuntil-end\r\n0\r\n\r\n"},
		"interim":     {send("/early", sized, "hello"), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n"},
		"bad status":  {send("/bad", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"unasked 101": {send("/switch", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"too much":    {send("/excess", sized, "hello"), "\r\n\r\nabc"},
	} {
		if !strings.Contains(c.got, c.want) || strings.Contains(c.got, "EXCESS") {
			t.Errorf("%s: %q", name, c.got)
		}
	}
	if got := send("/short", sized, "hello"); !strings.HasSuffix(got, "abc") {
		t.Errorf("a response cut short: %q", got)
	}
	old := r.exchange("GET http://127.0.0.1:" + port + "/chunked HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
	if !strings.HasSuffix(old, "\r\n\r\nabc") {
		t.Errorf("an HTTP/1.0 client got %q", old)
	}
}

// A body that the client cuts off must not look complete to the server.
func TestCutUpload(t *testing.T) {
	complete := make(chan error, 1)
	port := webServer(t, func(_ string, r *bufio.Reader, _ io.Writer) {
		complete <- copyDecoded(bufio.NewWriter(io.Discard), r)
	})
	r := newRig(t, []string{"127.0.0.1"}, nil, nil)
	conn := r.dial()
	fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", port)
	conn.Close()
	if err := <-complete; err == nil {
		t.Error("the server took the cut body for a whole one")
	}
}

func TestWebSocketUpgrade(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if !strings.Contains(head, "Upgrade: websocket\r\n") || !strings.Contains(head, "Connection: Upgrade\r\n") {
			fmt.Fprint(w, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
			return
		}
		fmt.Fprint(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello ")
		_, _ = io.Copy(w, r)
	})
	r := newRig(t, []string{"127.0.0.1"}, nil, nil)
	conn := r.dial()
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\nfirst ", port)
	br := bufio.NewReader(conn)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	_, _ = io.WriteString(conn, "second")
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(br); string(got) != "hello first second" {
		t.Errorf("%q", got)
	}
}

func TestSOCKS(t *testing.T) {
	_, port := server(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	var p uint16
	_, _ = fmt.Sscan(port, &p)
	r := newRig(t, []string{"127.0.0.1:" + port, "localhost:" + port, "127.0.0.1:1", "localhost:1", "fails.example"}, nil, func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	})
	request := func(cmd, atyp byte, addr string, port uint16) string {
		return string([]byte{5, cmd, 0, atyp}) + addr + string([]byte{byte(port >> 8), byte(port)})
	}
	name := func(s string) string { return string([]byte{byte(len(s))}) + s }
	const greeting = "\x05\x01\x00"
	for what, c := range map[string]struct {
		raw  string
		want byte
	}{
		"not allowed":     {request(1, 3, name("other.example"), 80), socksRuleset},
		"malformed":       {request(1, 3, name("evil.com\x00.a.b"), 80), socksRuleset},
		"bind":            {request(2, 1, "\x7f\x00\x00\x01", p), socksBadCommand},
		"unknown address": {request(1, 9, "", 0), socksBadAddressType},
		"refused":         {request(1, 1, "\x7f\x00\x00\x01", 1), socksRefused},
		"unresolvable":    {request(1, 3, name("fails.example"), 80), socksHostUnreachable},
	} {
		got := r.exchange(greeting + c.raw)
		if len(got) != 12 || got[3] != c.want {
			t.Errorf("%s: % x", what, got)
		}
	}
	for what, raw := range map[string]string{
		"address": greeting + request(1, 1, "\x7f\x00\x00\x01", p) + "hi",
		"name":    greeting + request(1, 3, name("localhost"), p) + "hi",
		"user":    "\x05\x01\x02" + "\x01\x01u\x01p" + request(1, 1, "\x7f\x00\x00\x01", p) + "hi",
	} {
		conn := r.dial()
		for i := range len(raw) { // one byte at a time
			_, _ = io.WriteString(conn, raw[i:i+1])
		}
		time.Sleep(20 * time.Millisecond)
		_ = conn.CloseWrite()
		got, _ := io.ReadAll(conn)
		if !bytes.HasSuffix(got, []byte("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00hi")) {
			t.Errorf("%s: % x", what, got)
		}
	}
	if got := r.exchange("\x05\x01\x07"); got != "\x05\xff" {
		t.Errorf("no acceptable method: % x", got)
	}
	if got := r.exchange("\x04\x01\x00\x50"); got != "" {
		t.Errorf("SOCKS4: % x", got)
	}
}

func TestAsk(t *testing.T) {
	_, port := server(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "up") })
	r := newRig(t, nil, []string{"10.0.0.1"}, func(o *Options) {
		o.Ask = func(_ context.Context, q AskRequest) (AskDecision, error) {
			switch {
			case q.Host == "127.0.0.1" && q.Spelling == "127.1" && q.Command == "cmd":
				return AskDecision{Allow: true}, nil
			case q.Host == "panics.example":
				panic("boom")
			case q.Host == "fails.example":
				return AskDecision{Allow: true}, errors.New("no terminal")
			}
			return AskDecision{Reason: "no\n<b>\u200b thanks"}, nil
		}
	})
	for target, want := range map[string]string{
		"127.1:" + port: "200 Connection Established", "no.example:1": "403 no b  thanks", "panics.example:1": "403 permission prompt failed",
		"fails.example:1": "403 permission prompt failed", "10.0.0.1:1": "403 host is on the deny list",
	} {
		if got := r.exchange("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+want+"\r\n") { // cli 68, 69, 70
			t.Errorf("%s: %q", target, got)
		}
	}
}

// A client that leaves while somebody is asked gets nothing dialed.
func TestClientLeavesDuringDecision(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	r := newRig(t, nil, nil, func(o *Options) {
		o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
			close(asked)
			<-ctx.Done()
			close(left)
			return AskDecision{Allow: true}, nil
		}
		o.Dial = func(context.Context, string) (net.Conn, error) {
			t.Error("dialed for a client that left")
			return nil, errors.New("no")
		}
	})
	conn := r.dial()
	fmt.Fprint(conn, "CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	conn.Close()
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Error("the question was not cancelled")
	}
}

func TestEarlyBytesAreBounded(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, nil, nil, func(o *Options) {
		o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
			<-ctx.Done()
			close(release)
			return AskDecision{}, nil
		}
	})
	conn := r.dial()
	fmt.Fprint(conn, "CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: x\r\n\r\n")
	go func() { _, _ = conn.Write(make([]byte, 1<<20)) }()
	select {
	case <-release:
	case <-time.After(5 * time.Second):
		t.Error("a flood before the tunnel stands goes on")
	}
}

func TestParentProxy(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if strings.HasPrefix(head, "CONNECT inside.example:443 HTTP/1.1\r\n") && strings.Contains(head, "Proxy-Authorization: Basic dTpw\r\n") {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\n\r\nAHEAD")
			_, _ = io.Copy(w, r)
			return
		}
		echoHead(head, r, w)
	})
	env := map[string]string{"HTTPS_PROXY": "http://u:p@127.0.0.1:" + port, "HTTP_PROXY": "http://127.0.0.1:" + port, "NO_PROXY": "direct.example, .sub.example,10.0.0.0/8"}
	parent, err := NewParent(nil, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, []string{"inside.example"}, nil, func(o *Options) { o.Parent = parent })
	conn := r.dial()
	fmt.Fprint(conn, "CONNECT inside.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(50 * time.Millisecond)
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(conn); !bytes.HasSuffix(got, []byte("\r\n\r\nAHEAD")) {
		t.Errorf("%q", got)
	}
	got := r.exchange("GET http://inside.example/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if !strings.Contains(got, "GET http://inside.example/x HTTP/1.1\r\nHost: inside.example\r\n") {
		t.Errorf("%q", got)
	}
	if got := r.exchange("CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("an unlisted host through the parent: %q", got)
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "direct.example": true, "a.direct.example": true, "sub.example": true, "10.1.1.1": true, "other.example": false, "192.0.2.1": false} {
		if parent.bypasses(host) != want {
			t.Errorf("bypasses(%s) = %v", host, !want)
		}
	}
	if p, err := NewParent(nil, func(string) (string, bool) { return "", false }, nil); p != nil || err != nil {
		t.Errorf("a parent from nothing: %v %v", p, err)
	}
	said := ""
	if p, err := NewParent(nil, func(k string) (string, bool) { return "socks5://h:1", k == "HTTPS_PROXY" }, func(s string) { said = s }); p != nil || err != nil || !strings.Contains(said, "HTTPS_PROXY") {
		t.Errorf("%v %v %q", p, err, said)
	}
}

func TestLiveUpdate(t *testing.T) {
	_, port := server(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "up") })
	r := newRig(t, nil, nil, nil)
	connect := "CONNECT 127.0.0.1:" + port + " HTTP/1.1\r\nHost: x\r\n\r\n"
	if got := r.exchange(connect); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("%q", got)
	}
	c := config.Default()
	c.Network.AllowedDomains = []string{"127.0.0.1"}
	h, err := policy.NewHosts(c)
	if err != nil {
		t.Fatal(err)
	}
	r.s.SetHosts(h)
	if got := r.exchange(connect); !strings.HasSuffix(got, "up") {
		t.Errorf("%q", got)
	}
}

func TestManyTunnels(t *testing.T) {
	_, port := server(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	r := newRig(t, []string{"127.0.0.1"}, nil, nil)
	var wait sync.WaitGroup
	for i := range 1000 {
		wait.Go(func() {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			text := fmt.Sprint("tunnel ", i)
			fmt.Fprintf(conn, "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\n", port)
			br := bufio.NewReader(conn)
			_, _ = br.ReadString('\n')
			_, _ = br.ReadString('\n')
			_, _ = io.WriteString(conn, text)
			got := make([]byte, len(text))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != text {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wait.Wait()
}

func TestMITMRoute(t *testing.T) {
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			h, err := readHead(bufio.NewReader(conn))
			if err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\ngot %s", h.start[1])
			}
			conn.Close()
		}
	}()
	m, err := NewMITM(&config.MITMProxy{SocketPath: path, Domains: []string{"*.m.example"}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, []string{"*.m.example"}, nil, func(o *Options) { o.MITM = m })
	if got := r.exchange("CONNECT A.m.example.:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasSuffix(got, "got a.m.example:443") {
		t.Errorf("%q", got)
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add("GET http://a/ HTTP/1.1\r\nHost: x\r\n\r\n")
	f.Add("CONNECT a:1 HTTP/1.1\r\nA : b\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		h, err := readHead(bufio.NewReaderSize(strings.NewReader(raw), maxHead))
		if err != nil {
			return
		}
		for _, fl := range h.endToEnd() {
			if strings.ContainsAny(fl.name+fl.value, "\r\n\x00") {
				t.Errorf("a line break in %q: %q", fl.name, fl.value)
			}
		}
		_, _ = h.framing()
	})
}

func FuzzTargets(f *testing.F) {
	f.Add("http://u@h:1/p?q#f")
	f.Add("[::1]:80")
	f.Fuzz(func(t *testing.T, s string) {
		for _, try := range []func() (string, int, bool){
			func() (string, int, bool) { return splitAuthority(s, 0) },
			func() (string, int, bool) { u, ok := parseURI(s); return u.host, u.port, ok },
		} {
			host, port, ok := try()
			if !ok {
				continue
			}
			if port < 1 || port > 65535 || host == "" {
				t.Errorf("%q gives %q port %d", s, host, port)
			}
			if c, err := hostname.Canonical(host); err == nil && strings.ContainsAny(c, "\r\n @/") {
				t.Errorf("%q gives host %q", s, c)
			}
		}
	})
}

func FuzzChunked(f *testing.F) {
	f.Add("5\r\nhello\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if copyChunked(w, bufio.NewReaderSize(strings.NewReader(raw), maxHead)) != nil {
			return
		}
		var a, b bytes.Buffer
		wa, wb := bufio.NewWriter(&a), bufio.NewWriter(&b)
		if copyDecoded(wa, bufio.NewReaderSize(strings.NewReader(raw), maxHead)) == nil && copyDecoded(wb, bufio.NewReader(&out)) == nil && a.String() != b.String() {
			t.Errorf("body changed: %q, %q", a.String(), b.String())
		}
	})
}

func BenchmarkTunnel(b *testing.B) {
	_, port := server(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	r := newRig(b, []string{"127.0.0.1"}, nil, nil)
	buf := make([]byte, 1<<20)
	run := func(b *testing.B, conn net.Conn) {
		defer conn.Close()
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if _, err := conn.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Fatal(err)
		}
		run(b, conn)
	})
	b.Run("connect", func(b *testing.B) {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\n", port)
		_, _ = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 Connection Established\r\n\r\n")))
		run(b, conn)
	})
}

func BenchmarkShortConnects(b *testing.B) {
	_, port := server(b, func(c *net.TCPConn) {})
	r := newRig(b, []string{"127.0.0.1"}, nil, nil)
	for b.Loop() {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\n", port)
		_, _ = io.ReadAll(conn)
		conn.Close()
	}
}
