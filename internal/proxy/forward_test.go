package proxy

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/violation"
)

// network 99, 100, 102, 83, 119: what a server sees of a request.
func TestForwardedRequest(t *testing.T) {
	port := webServer(t, echoHead)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	got := r.exchange("GET http://u:p@127.1:" + port + "/a/../b//c%2e?b=1&c=http://x/#f HTTP/1.1\r\nHost: other\r\nX-Keep: 1\r\nx-keep: 2\r\nX-Bytes: \xe9\r\nCookie: a\r\nCookie: b\r\n" +
		"Connection: close, x-drop, Host, content-length\r\nX-Drop: 3\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X\r\nUpgrade: websocket\r\nKeep-Alive: 1\r\n" +
		"Proxy-Authorization: Basic c2VjcmV0\r\nProxy_Authorization: secret\r\nPROXY.AUTHORIZATION: secret\r\nproxy_connection: keep-alive\r\nKeep_Alive: 1\r\nAuthorization: mine\r\n\r\n")
	want := "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" +
		"GET /a/../b//c%%2e?b=1&c=http://x/ HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nX-Keep: 1\r\nx-keep: 2\r\nX-Bytes: \xe9\r\nCookie: a\r\nCookie: b\r\nAuthorization: mine\r\nConnection: close\r\n\r\n"
	if want = fmt.Sprintf(want, len(want)-len("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n")-1); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for target, first := range map[string]string{"http://127.0.0.1:" + port: "GET / HTTP", "HTTP://127.0.0.1:" + port + "?q": "GET /?q HTTP", "http://127.0.0.1:" + port + "#f": "GET / HTTP",
		"http://evil.test@x@127.0.0.1:" + port: "GET / HTTP", "http://127.0.0.1:" + port + "\\@evil.test/": "GET /\\@evil.test/ HTTP"} {
		if got := r.exchange("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "\r\n\r\n"+first) {
			t.Errorf("%s: %q", target, got)
		}
	}
}

// network 101, 105, 107, 108, 4, 5, 32, 34: what is no request goes nowhere.
func TestMalformedRequests(t *testing.T) {
	port := untouched(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, deny: []string{"evil.test"}})
	uri := "http://127.0.0.1:" + port + "/"
	base := "GET " + uri + " HTTP/1.1\r\nHost: x\r\n"
	for name, raw := range map[string]string{
		"equal lengths":        base + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"two lengths":          base + "Content-Length: 1\r\ncontent-length: 2\r\n\r\nx",
		"listed lengths":       base + "Content-Length: 1, 1\r\n\r\nx",
		"length and chunked":   base + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunked and length":   base + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two codings":          base + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"other coding":         base + "Transfer-Encoding: gzip\r\n\r\n",
		"coding list":          base + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"hidden coding":        base + "Transfer-Encoding: xchunked\r\n\r\n",
		"vertical tab":         base + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"folded coding":        base + "Content-Length: 5\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
		"folded length":        base + "Content.Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"signed length":        base + "Content-Length: +1\r\n\r\nx",
		"hexadecimal length":   base + "Content-Length: 0x1\r\n\r\nx",
		"negative length":      base + "Content-Length: -1\r\n\r\nx",
		"huge length":          base + "Content-Length: 99999999999999999999\r\n\r\nx",
		"folded line":          base + "X: a\r\n b\r\n\r\n",
		"folded first":         "GET " + uri + " HTTP/1.1\r\n Host: x\r\n\r\n",
		"bare line feed":       base + "X: a\n\r\n",
		"bare line feeds":      strings.ReplaceAll(base, "\r\n", "\n") + "\n",
		"bare carriage return": base + "X: a\rb\r\n\r\n",
		"blank before colon":   base + "X : a\r\n\r\n",
		"tab before colon":     base + "Content-Length\t: 1\r\n\r\n",
		"no colon":             base + "X\r\n\r\n",
		"no name":              base + ": a\r\n\r\n",
		"NUL":                  base + "X: a\x00b\r\n\r\n",
		"control in a value":   base + "X: a\x01b\r\n\r\n",
		"bytes in a name":      base + "X\xe9: a\r\n\r\n",
		"no host":              "GET " + uri + " HTTP/1.1\r\n\r\n",
		"two hosts":            base + "Host: y\r\n\r\n",
		"chunks in HTTP/1.0":   "POST " + uri + " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"origin form":          "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n\r\n",
		"asterisk":             "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"ftp":                  "GET ftp://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"gopher":               "GET gopher://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"one slash":            "GET http:/127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"no authority":         "GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n",
		"port 0":               "GET http://127.0.0.1:0/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"port 65536":           "GET http://127.0.0.1:65536/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"escaped host":         "GET http://%65vil.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"zone":                 "GET http://[::1%25lo]/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"other version":        "GET " + uri + " HTTP/9.9\r\nHost: x\r\n\r\n",
		"no version":           "GET " + uri + "\r\n\r\n",
		"version in lower":     "GET " + uri + " http/1.1\r\nHost: x\r\n\r\n",
		"blank at the end":     "GET " + uri + " HTTP/1.1 \r\nHost: x\r\n\r\n",
		"two blanks":           "GET  " + uri + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"tab":                  "GET\t" + uri + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"method":               "G(T " + uri + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"byte above ASCII":     "GET " + uri + "\xff HTTP/1.1\r\nHost: x\r\n\r\n",
		"control in a path":    "GET " + uri + "\x7f HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":                  "\x16\x03\x01\x00\x05hello\r\n\r\n",
		"HTTP/2 preface":       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"garbage":              "GARBAGE\r\n\r\n",
		"an empty line":        "\r\n" + base + "\r\n",
	} {
		if got := r.exchange(raw); status(got) != "HTTP/1.1 400 Bad Request" || strings.Count(got, "HTTP/1.1") != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, raw := range []string{base + "X: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", base + strings.Repeat("X: a\r\n", 4<<10) + "\r\n", "GET http://127.0.0.1/" + strings.Repeat("a", 2_000_000)} {
		if got := r.exchange(raw); status(got) != "HTTP/1.1 431 Request Header Fields Too Large" {
			t.Errorf("large head: %.60q", got)
		}
	}
	if got := r.lines(); got != "" {
		t.Errorf("recorded:\n%s", got)
	}
}

// network 109, 110, 118, 33: each request of a connection is judged for itself.
func TestKeptConnection(t *testing.T) {
	port := webServer(t, func(head string, _ *bufio.Reader, w io.Writer) {
		path, _, _ := strings.Cut(head, " HTTP/")
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, deny: []string{"evil.test"}})
	get := func(uri, extra string) string { return "GET " + uri + " HTTP/1.1\r\nHost: x\r\n" + extra + "\r\n" }
	got := r.exchange(get("http://127.0.0.1:"+port+"/one", "") + get("http://EVIL.test./", "") + get("http://127.0.0.1:"+port+"/two", "Connection: close\r\n"))
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: %s\r\n\r\nGET /%s"
	keep := "keep-alive\r\nKeep-Alive: timeout=5"
	body := "Connection blocked by network allowlist\nhost is on the deny list\nTo allow it: remove \"evil.test\" from network.deniedDomains\n"
	want := fmt.Sprintf(ok, keep, "one") + "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nX-Proxy-Error: blocked-by-allowlist\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body + fmt.Sprintf(ok, "close", "two")
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := r.lines(); got != "deny network-outbound evil.test:80 (host is on the deny list)" {
		t.Errorf("recorded %q", got)
	}

	conn := r.dial()
	br := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 200 OK\r\n", "HTTP/1.1 403 Forbidden\r\n"} {
		_, _ = io.WriteString(conn, get("http://127.0.0.1:"+port+"/", ""))
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.Proto+" "+res.Status+"\r\n" != want {
			t.Fatalf("%v, %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		r.s.SetHosts(hostLists(t, setup{}))
	}
}

// A client that ends its side after its last request gets the answer.
func TestHalfCloseAfterRequest(t *testing.T) {
	port := webServer(t, func(head string, _ *bufio.Reader, w io.Writer) {
		time.Sleep(30 * time.Millisecond)
		echoHead(head, nil, w)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", port)
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); !strings.Contains(string(got), "GET / HTTP/1.1") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A client that is gone does not hold a silent server's connection for ever.
func TestAbandonedRequest(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"closes": func(c *net.TCPConn) { c.Close() },
		"resets": func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		arrived, ended := make(chan struct{}), make(chan struct{})
		port := webServer(t, func(_ string, r *bufio.Reader, _ io.Writer) {
			close(arrived)
			_, _ = r.ReadByte()
			close(ended)
		})
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.left = 30 * time.Millisecond }})
		conn := r.dial()
		fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", port)
		<-arrived
		leave(conn)
		happens(t, name+": the end of the server's connection", ended)
	}
}

// A server that switches before the last byte of the request has gone out: the
// answer waits for the request instead of failing.
func TestUpgradeAnsweredEarly(t *testing.T) {
	answered := make(chan struct{})
	port := webServer(t, func(_ string, r *bufio.Reader, w io.Writer) {
		fmt.Fprint(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n")
		close(answered)
		_, _ = io.Copy(w, r)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nUpgrade: a\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\n", port)
	<-answered
	time.Sleep(20 * time.Millisecond) // long enough for the proxy to have read the answer
	_, _ = io.WriteString(conn, "b")
	expect(t, conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\nb")
}

// Other than in network 116, an upgrade is served where the server takes part.
func TestWebSocketUpgrade(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if !strings.HasSuffix(head, "Sec-WebSocket-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") {
			fmt.Fprint(w, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
			return
		}
		fmt.Fprint(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\nConnection: Upgrade\r\n\r\nhello ")
		_, _ = io.Copy(w, r)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nConnection: keep-alive, Upgrade\r\n\r\nfirst ", port)
	expect(t, conn, "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.WriteString(conn, "second")
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(conn); string(got) != "hello first second" {
		t.Errorf("%q", got)
	}
	conn = r.dial() // a server that does not want to
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n", port)
	expect(t, conn, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nConnection: keep-alive\r\n")
}

func TestRequireHostMatch(t *testing.T) {
	port := webServer(t, echoHead)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.RequireHostMatch = true }})
	req := func(host, extra string) string {
		return "POST http://u:pw@127.1:" + port + "/p?secret#f HTTP/1.1\r\nHost: " + host + "\r\n" + extra + "Content-Length: 2\r\n\r\nab"
	}
	for _, host := range []string{"other.test", "", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0" + port, "127.1:" + port, "127.0.0.1.:" + port, "u@127.0.0.1:" + port, "[127.0.0.1]:" + port, "127.0.0.1:1"} {
		got := r.exchange(req(host, "") + req("127.0.0.1:"+port, "Connection: close\r\n"))
		if !strings.HasPrefix(got, "HTTP/1.1 421 Misdirected Request\r\nContent-Type: text/plain\r\nX-Proxy-Error: blocked-by-sandbox-runtime\r\n") || !strings.Contains(got, "HTTP/1.1 200 OK") {
			t.Errorf("%q: %q", host, got)
		}
		if got, want := r.lines(), "deny http-request POST http://127.1:"+port+"/p?… (the Host header does not name the request's target)"; got != want { // network 146
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !names("Up.Test", target{"up.test", 80}, 80) || names("up.test", target{"up.test", 8443}, 443) || !names("[::1]", target{"::1", 443}, 443) || names("::1", target{"::1", 443}, 443) {
		t.Error("names")
	}
}

// An https URI in cleartext goes on in TLS, to a verified server only.
func TestHTTPSURI(t *testing.T) {
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, r.URL) }))
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.StartTLS()
	defer ts.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(ts.URL, "https://"))
	roots := x509.NewCertPool()
	roots.AddCert(ts.Certificate())
	for want, pool := range map[string]*x509.CertPool{"HTTP/1.1 200 OK": roots, "HTTP/1.1 502 Bad Gateway": x509.NewCertPool()} {
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.Roots = pool }})
		got := r.exchange("GET https://127.0.0.1:" + port + "/x HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n")
		if status(got) != want || pool == roots && !strings.HasSuffix(got, "127.0.0.1:"+port+"/x") {
			t.Errorf("%q", got)
		}
	}
}

// network 145: a flood of refusals is recorded, and the store stays small.
func TestRefusalFlood(t *testing.T) {
	store := violation.NewStore()
	var n atomic.Int64
	r := newRig(t, setup{options: func(o *Options) { o.Record = func(e violation.Event) { n.Add(1); store.Add(e) } }})
	conn := r.dial()
	go func() {
		w := bufio.NewWriter(conn)
		for i := range 10_000 {
			fmt.Fprintf(w, "GET http://h%d.test/ HTTP/1.1\r\nHost: x\r\n\r\n", i)
		}
		_ = w.Flush()
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, conn)
	if n.Load() != 10_000 || store.Count() != 100 || store.Total() != 10_000 {
		t.Errorf("%d refusals, %d of %d recorded", n.Load(), store.Count(), store.Total())
	}
}
