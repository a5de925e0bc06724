package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// bodyServer answers with the body it got, or as the path says.
func bodyServer(t *testing.T) string {
	return webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		_, path, _ := strings.Cut(head, " /")
		path, _, _ = strings.Cut(path, " ")
		if raw, ok := cannedResponses[path]; ok {
			if !strings.HasPrefix(path, "early-") {
				_, _ = readBody(head, r)
			}
			_, _ = io.WriteString(w, raw)
			return
		}
		got, err := readBody(head, r)
		if err != nil {
			return
		}
		rest := make([]byte, 1) // nothing may follow the body
		_ = w.(net.Conn).SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, _ := r.Read(rest); n > 0 {
			got += " SMUGGLED"
		}
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(got), got)
	})
}

var cannedResponses = map[string]string{
	"chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n",
	"until-end":    "HTTP/1.0 200 OK\r\n\r\nuntil-end",
	"short":        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcde",
	"short-chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
	"excess":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabEXCESS",
	"hints":        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
	"099":          "HTTP/1.1 099 x\r\n\r\n",
	"control":      "HTTP/1.1 200 OK\r\nX: a\x01b\r\n\r\n",
	"phrase":       "HTTP/1.1 200 O\x1bK\r\n\r\n",
	"both":         "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"large-head":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\n",
	"http2":        "HTTP/2 200\r\n\r\n",
	"nothing":      "",
	"101":          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
	"hop":          "HTTP/1.1 200 \xe9\r\nConnection: x-a\r\nX-A: 1\r\nProxy-Authenticate: Basic\r\nKeep-Alive: timeout=99\r\nUpgrade: h2c\r\nWWW-Authenticate: Basic\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-Bytes: \xe9\r\nContent-Length: 0\r\n\r\n",
	"early-413":    "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
	"not-modified": "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
}

// network 103, 104, 112, 113, 114, 115, 116
func TestBodies(t *testing.T) {
	port := bodyServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	send := func(method, path, fields, body string) string {
		return r.exchange(method + " http://127.0.0.1:" + port + "/" + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields + "\r\n" + body)
	}
	const sized, chunked = "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	smuggled := "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct{ got, want string }{
		"sized":               {send("POST", "", sized, "hello"), "\r\n\r\nhello"},
		"chunked":             {send("POST", "", chunked, "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"), "\r\n\r\nhello"},
		"named length":        {send("POST", "", "Connection: host, content-length\r\n"+sized, "hello"), "\r\n\r\nhello"},
		"a request in chunks": {send("GET", "", chunked, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled)), "\r\n\r\n" + smuggled},
		"empty declarations":  {send("POST", "", "Content-Length: \r\nTransfer-Encoding:\r\n", ""), "Content-Length: 0\r\n"},
		"unknown method":      {send("FOO", "", sized, "hello"), "\r\n\r\nhello"},
		"chunks back":         {send("POST", "chunked", sized, "hello"), "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"},
		"close-delimited":     {send("POST", "until-end", sized, "hello"), "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n9\r\nuntil-end\r\n0\r\n\r\n"},
		"interim":             {send("POST", "hints", sized, "hello"), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"},
		"bad status":          {send("POST", "099", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"control character":   {send("POST", "control", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"control in phrase":   {send("POST", "phrase", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"two framings":        {send("POST", "both", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"large head":          {send("POST", "large-head", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"HTTP/2":              {send("POST", "http2", sized, "hello"), "HTTP/1.1 502 Bad Gateway\r\n"},
		"no answer":           {send("GET", "nothing", "", ""), "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nConnection: close\r\n\r\nBad Gateway\n"},
		"unasked 101":         {send("GET", "101", "", ""), "HTTP/1.1 502 Bad Gateway\r\n"},
		"unnamed upgrade":     {send("GET", "101", "Upgrade: websocket\r\n", ""), "HTTP/1.1 502 Bad Gateway\r\n"},
		"h2c":                 {send("GET", "101", "Connection: upgrade\r\nUpgrade: h2c\r\n", ""), "HTTP/1.1 502 Bad Gateway\r\n"},
		"excess":              {send("GET", "excess", "", ""), "\r\n\r\nab"},
		"hop by hop":          {send("GET", "hop", "", ""), "HTTP/1.1 200 \xe9\r\nWWW-Authenticate: Basic\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-Bytes: \xe9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		"head":                {send("HEAD", "chunked", "", ""), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		"304":                 {send("GET", "not-modified", "", ""), "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nConnection: close\r\n\r\n"},
		"early answer":        {send("POST", "early-413", sized, "he"), "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"},
	} {
		if strings.HasPrefix(c.want, "HTTP") && !strings.HasPrefix(c.got, c.want) || !strings.HasPrefix(c.want, "HTTP") && !strings.Contains(c.got, c.want) || strings.Contains(c.got, "EXCESS") ||
			strings.Contains(c.got, "SMUGGLED") && name != "unknown method" {
			t.Errorf("%s: %q", name, c.got)
		}
	}
	for path, want := range map[string]string{"short": "\r\n\r\nabcde", "short-chunks": "\r\n\r\n3\r\nabc\r\n"} {
		if got := send("GET", path, "", ""); !strings.HasSuffix(got, want) {
			t.Errorf("a response cut short: %q", got)
		}
	}
	for path, want := range map[string]string{"chunked": "\r\nConnection: close\r\n\r\nabcde", "until-end": "\r\nConnection: close\r\n\r\nuntil-end", "hints": "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"} {
		old := r.exchange("GET http://127.0.0.1:" + port + "/" + path + " HTTP/1.0\r\n\r\n")
		if !strings.HasSuffix(old, want) || strings.Contains(old, "103") {
			t.Errorf("an HTTP/1.0 client got %q", old)
		}
	}
}

// network 113, 97: a server that fails does not cost the client its connection.
func TestConnectionSurvivesFailures(t *testing.T) {
	port := bodyServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1", "gone.test"}})
	post := func(uri, extra string) string {
		return "POST " + uri + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" + extra + "\r\nhello"
	}
	chunks := "POST http://gone.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	got := r.exchange(post("http://127.0.0.1:"+port+"/099", "") + post("http://127.0.0.1:"+closedPort(t)+"/", "") + chunks + post("http://off.test/", "") +
		post("http://127.0.0.1:"+port+"/", "") + post("http://127.0.0.1:"+port+"/early-413", "") + post("http://127.0.0.1:"+port+"/", "Connection: close\r\n"))
	var codes []string
	for part := range strings.SplitSeq(got, "HTTP/1.1 ") {
		codes = append(codes, part[:min(3, len(part))])
	}
	if s := strings.Join(codes, " "); s != " 502 502 502 403 200 413 200" {
		t.Errorf("%s\n%q", s, got)
	}
}

// network 111: an upload that is refused.
func TestRefusedUpload(t *testing.T) {
	r := newRig(t, setup{waits: func(w *waits) { w.linger = 100 * time.Millisecond }})
	for _, fields := range []string{"Content-Length: 100000000\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 10\r\nExpect: 100-continue\r\n", "Content-Length: 10\r\n"} {
		conn := r.dial()
		fmt.Fprintf(conn, "POST http://off.test/ HTTP/1.1\r\nHost: x\r\n%s\r\n", fields)
		if !strings.Contains(fields, "10\r\n") {
			go func() { _, _ = conn.Write(make([]byte, 4<<20)) }()
		}
		got, err := io.ReadAll(conn)
		if isTimeout(err) || status(string(got)) != "HTTP/1.1 403 Forbidden" || strings.Count(string(got), "HTTP/1.1") != 1 {
			t.Errorf("%s: %q", fields, got)
		}
		if ends := strings.Contains(string(got), "Connection: close\r\n"); ends != (len(fields) > 30 && fields[0] == 'C' || strings.Contains(fields, "000")) {
			t.Errorf("%s: the answer says that the connection ends: %v", fields, ends)
		}
	}
}

// An answer arrives although the client goes on sending: closing must not turn
// into a reset that discards it.
func TestRefusalArrives(t *testing.T) {
	r := newRig(t, setup{})
	for _, request := range []string{connectTo("off.test:443"), "GARBAGE\r\n\r\n", "POST http://off.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", socksConnect("off.test", "1")} {
		for range 10 {
			conn := r.dial()
			_, _ = conn.Write(append([]byte(request), make([]byte, 300_000)...))
			time.Sleep(time.Millisecond)
			if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 4") && !strings.HasPrefix(string(got), "\x05\x00\x05\x02") {
				t.Fatalf("%q: %q, %v", request, got, err)
			}
			conn.Close()
		}
	}
}

// network 106: a body that the client cuts off must not look complete.
func TestCutUpload(t *testing.T) {
	for _, raw := range []string{"Transfer-Encoding: chunked\r\n\r\n5\r\nhe", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "Content-Length: 5\r\n\r\nhe", "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXY0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nx\r\n", "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n"} {
		complete := make(chan error, 1)
		port := webServer(t, func(head string, r *bufio.Reader, _ io.Writer) {
			_, err := readBody(head, r)
			complete <- err
		})
		r := newRig(t, setup{allow: []string{"127.0.0.1"}})
		conn := r.dial()
		fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n%s", port, raw)
		_ = conn.CloseWrite()
		if err := <-complete; err == nil {
			t.Errorf("%q: the server took the cut body for a whole one", raw)
		}
	}
}

// An upload goes on while the response streams, and each part goes on at once.
func TestStreamsBothWays(t *testing.T) {
	port := webServer(t, func(_ string, r *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		b := newBody(r, framing{chunked: true}, false)
		part := make([]byte, 100)
		for {
			n, err := b.Read(part)
			if err != nil {
				break
			}
			fmt.Fprintf(w, "%x\r\n%s\r\n", n, part[:n])
		}
		_, _ = io.WriteString(w, "0\r\n\r\n")
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", port)
	expect(t, conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n")
	for i := range 5 {
		fmt.Fprintf(conn, "5\r\npart%d\r\n", i)
		expect(t, conn, fmt.Sprintf("5\r\npart%d\r\n", i))
	}
	_, _ = io.WriteString(conn, "0\r\n\r\n")
	expect(t, conn, "0\r\n\r\n")
	_, _ = io.WriteString(conn, "GET http://off.test/ HTTP/1.1\r\nHost: x\r\n\r\n") // and the connection goes on
	expect(t, conn, "HTTP/1.1 403 Forbidden\r\n")
}

// The end of the client's input does not cut a response that has begun.
func TestHalfCloseDuringResponse(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		time.Sleep(5 * time.Millisecond)
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbeg")
		_, _ = readBody(head, r)
		time.Sleep(1300 * time.Millisecond) // longer than an answer may take to begin
		_, _ = io.WriteString(w, "inend")
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.left = time.Second }})
	for _, body := range []string{"", "hello"} {
		conn := r.dial()
		fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", port, len(body))
		if body == "" {
			_ = conn.CloseWrite() // before the response
		}
		expect(t, conn, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nbeg")
		if body != "" {
			_, _ = io.WriteString(conn, body)
			_ = conn.CloseWrite()
		}
		if got, err := io.ReadAll(conn); string(got) != "inend" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A client that dawdles with its body after the whole answer is not waited for.
func TestDawdlingUpload(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = readBody(head, r)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.linger = time.Second }})
	conn := r.dial()
	fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", port)
	expect(t, conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nok")
	time.Sleep(20 * time.Millisecond)
	_, _ = io.WriteString(conn, "1\r\nb\r\n")
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Permission to send a body is the server's to give.
func TestExpectContinue(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if strings.Contains(head, "/no") {
			_, _ = io.WriteString(w, "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if !strings.Contains(head, "Expect: 100-continue\r\n") {
			return
		}
		_, _ = io.WriteString(w, "HTTP/1.1 100 Continue\r\n\r\n")
		body, _ := readBody(head, r)
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.linger = 50 * time.Millisecond }})
	conn := r.dial()
	fmt.Fprintf(conn, "PUT http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", port)
	expect(t, conn, "HTTP/1.1 100 Continue\r\n\r\n")
	_, _ = io.WriteString(conn, "hello")
	expect(t, conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nhello")
	fmt.Fprintf(conn, "PUT http://127.0.0.1:%s/no HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", port)
	if got, _ := io.ReadAll(conn); string(got) != "HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

// A large upload waits with what does not fit while a person is asked.
func TestAskingDuringUpload(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		body, err := readBody(head, r)
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d %v", len(body), err)
	})
	asked := make(chan struct{})
	r := newRig(t, setup{options: func(o *Options) {
		o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
			close(asked)
			select {
			case <-ctx.Done():
				t.Error("the question was cancelled")
			case <-time.After(50 * time.Millisecond):
			}
			return AskDecision{Allow: true}, nil
		}
	}})
	conn := r.dial()
	go func() {
		fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n", port)
		_, _ = conn.Write(make([]byte, 1_000_000))
	}()
	<-asked
	if got, _ := io.ReadAll(conn); !strings.HasSuffix(string(got), "\r\nd\r\n1000000 <nil>\r\n0\r\n\r\n") {
		t.Errorf("%q", got)
	}
}
