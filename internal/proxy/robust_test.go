package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
	"github.com/srt-sandbox/srt/internal/violation"
)

// waitForEver lets nothing end by itself within the patience of a test.
func waitForEver(w *waits) {
	w.firstByte, w.head, w.body, w.keepAlive, w.left, w.dial, w.socks = time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour
}

// network 1, 2, 117, and the other waits.
func TestWaits(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		if _, err := readBody(head, r); err == nil {
			echoHead(head, nil, w)
		}
	})
	get := "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n"
	short := 50 * time.Millisecond
	for name, c := range map[string]struct {
		set  func(*waits)
		raw  string
		want string
	}{
		"first byte":  {func(w *waits) { w.firstByte = short }, "", ""},
		"head":        {func(w *waits) { w.head = short }, "GET http://127.0.0.1/ HTTP/1.1\r\nHost", "HTTP/1.1 400 Bad Request"},
		"keep-alive":  {func(w *waits) { w.keepAlive = short }, get, "HTTP/1.1 200 OK"},
		"second head": {func(w *waits) { w.head = short }, get + "GET ", "HTTP/1.1 200 OK"},
		"body":        {func(w *waits) { w.body = short }, strings.Replace(get, "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nab", 1), "HTTP/1.1 502 Bad Gateway"},
		"SOCKS":       {func(w *waits) { w.socks = short }, "\x05\x01\x00\x05", "\x05\x00"},
		"greeting":    {func(w *waits) { w.socks = short }, "\x05\xff\x00", ""},
	} {
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) {
			waitForEver(w) // but for the one that is tried
			w.linger = short
			c.set(w)
		}})
		start := time.Now() // the wait may begin with the connection
		conn := r.dial()
		_, _ = io.WriteString(conn, c.raw)
		got, err := io.ReadAll(conn)
		if took := time.Since(start); err != nil || status(string(got)) != c.want || took < short/2 {
			t.Errorf("%s: %q after %v, %v", name, got, took, err)
		}
	}
	r := newRig(t, setup{})
	r.dial().Close() // without a byte
}

// A slow body is not an idle one.
func TestSlowUpload(t *testing.T) {
	port := webServer(t, func(head string, r *bufio.Reader, w io.Writer) {
		body, err := readBody(head, r)
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s %v", body, err)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.body = time.Second }})
	conn := r.dial()
	fmt.Fprintf(conn, "POST http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", port)
	const bytes = 12
	for range bytes { // together longer than the wait, each of them far shorter
		_, _ = io.WriteString(conn, "1\r\nx\r\n")
		time.Sleep(100 * time.Millisecond)
	}
	_, _ = io.WriteString(conn, "0\r\n\r\n")
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(conn); !strings.Contains(string(got), strings.Repeat("x", bytes)+" <nil>") {
		t.Errorf("%q", got)
	}
}

// network 142: many tunnels at once.
func TestManyTunnels(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	const n = 1200
	testutil.NeedFiles(t, 4*n+200)
	var wait, ready sync.WaitGroup
	ready.Add(n)
	for i := range n {
		wait.Go(func() {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Error(err)
				ready.Done()
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
			text := fmt.Sprint("tunnel ", i)
			request, done := connectTo("127.0.0.1:"+port), established
			if i%2 == 1 {
				request, done = socksConnect("127.0.0.1", port), "\x05\x00"+string(socksReply(socksSucceeded))
			}
			_, _ = io.WriteString(conn, request)
			head := make([]byte, len(done))
			if _, err := io.ReadFull(conn, head); err != nil || string(head) != done {
				t.Errorf("%q, %v", head, err)
			}
			ready.Done()
			ready.Wait() // all of them stand at once
			_, _ = io.WriteString(conn, text)
			got := make([]byte, len(text))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wait.Wait()
}

// More connections than allowed are closed, and the places become free again.
func TestMaxConns(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.MaxConns = 2 }})
	a, b := r.tunnel("127.0.0.1:"+port), r.tunnel("127.0.0.1:"+port)
	if got := r.exchange(connectTo("127.0.0.1:" + port)); got != "" {
		t.Errorf("%q", got)
	}
	a.Close()
	eventually(t, "a free place", func() bool {
		conn := r.dial()
		defer conn.Close()
		_, _ = io.WriteString(conn, connectTo("127.0.0.1:"+port))
		n, _ := conn.Read(make([]byte, 1))
		return n == 1
	})
	b.Close()
}

// Questions that nobody answers are bounded, however many clients leave.
func TestManyQuestions(t *testing.T) {
	release := make(chan struct{})
	var n atomic.Int32
	r := newRig(t, setup{options: func(o *Options) {
		o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
			n.Add(1)
			<-release
			return AskDecision{}, nil
		}
	}})
	r.s.questions = make(chan struct{}, 2)
	for range 2 {
		conn := r.dial()
		_, _ = io.WriteString(conn, connectTo("off.test:1"))
	}
	eventually(t, "two questions", func() bool { return n.Load() == 2 })
	if got := status(r.exchange(connectTo("off.test:1"))); got != "HTTP/1.1 403 permission prompt failed" {
		t.Errorf("%q", got)
	}
	close(release)
	eventually(t, "the end of the questions", func() bool { return len(r.s.questions) == 0 })
	if n.Load() != 2 {
		t.Errorf("%d questions", n.Load())
	}
}

// Upstreams and clients that break off, at every byte of an exchange.
func TestBreaks(t *testing.T) {
	response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	var cut atomic.Int64
	port := webServer(t, func(_ string, _ *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, response[:cut.Load()])
		_ = w.(*net.TCPConn).SetLinger(0) // a reset
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.linger = 10 * time.Millisecond }})
	request := "POST http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
	for i := range len(response) {
		cut.Store(int64(i))
		if got := r.exchange(request); strings.HasSuffix(got, "\r\n0\r\n\r\n") || got == "" {
			t.Errorf("cut at %d: %q", i, got)
		}
	}
	cut.Store(int64(len(response)))
	for _, whole := range []string{request, connectTo("127.0.0.1:"+port) + "x", socksConnect("127.0.0.1", port) + "x"} {
		for i := range len(whole) {
			conn := r.dial()
			_, _ = io.WriteString(conn, whole[:i])
			if i%2 == 0 {
				_ = conn.SetLinger(0)
			}
			conn.Close()
		}
	}
	eventually(t, "the end of all connections", func() bool { return len(r.s.slots) == 0 })
	if got := r.exchange(strings.Replace(request, "POST", "PUT", 1)); got == "" {
		t.Error("nothing works any more")
	}
}

// Both ends of a tunnel break off while data flows.
func TestTunnelResets(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		ended := make(chan struct{})
		port := server(t, func(c *net.TCPConn) {
			defer close(ended)
			_, _ = c.Write(make([]byte, 1000))
			if who == "server" {
				_, _ = c.Read(make([]byte, 1)) // the tunnel stands: a reset now is not a failed dial
				_ = c.SetLinger(0)
				return
			}
			_, _ = io.Copy(io.Discard, c)
		})
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.drain = 50 * time.Millisecond }})
		conn := r.tunnel("127.0.0.1:" + port)
		_, _ = conn.Write(make([]byte, 1000))
		if who == "client" {
			_ = conn.SetLinger(0)
			conn.Close()
		} else {
			_, _ = io.Copy(io.Discard, conn)
		}
		<-ended
		eventually(t, "the end of the tunnel", func() bool { return len(r.s.slots) == 0 })
	}
}

// network 143: random bytes change nothing.
func TestGarbage(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) {
		w.linger, w.firstByte, w.head, w.socks = 5*time.Millisecond, time.Second, time.Second, time.Second
	}})
	before := r.goroutines()
	seeds := []string{connectTo("127.0.0.1:" + port), socksConnect("127.0.0.1", port), "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		raw := []byte(seeds[rnd.IntN(len(seeds))])
		for range 1 + rnd.IntN(6) {
			raw[rnd.IntN(len(raw))] = byte(rnd.IntN(256))
		}
		conn := r.dial()
		_, _ = conn.Write(raw[:1+rnd.IntN(len(raw))])
		_ = conn.CloseWrite()
		_, _ = io.CopyN(io.Discard, conn, 4096)
		conn.Close()
	}
	eventually(t, "the end of all connections", func() bool { return len(r.s.slots) == 0 })
	eventually(t, "the end of all goroutines", func() bool { return r.goroutines() <= before+2 })
	r.tunnel("127.0.0.1:" + port).Close()
}

// A mistake in the handling of one connection is not the end of the process.
func TestPanic(t *testing.T) {
	r := newRig(t, setup{options: func(o *Options) { o.Record = func(violation.Event) { panic("a sink with a mistake") } }})
	if got := r.exchange(connectTo("off.test:1")); got != "" {
		t.Errorf("%q", got)
	}
	if got := r.exchange("garbage\r\n\r\n"); status(got) != "HTTP/1.1 400 Bad Request" {
		t.Errorf("%q", got)
	}
}

// What a listener of an external proxy gets goes there as it is.
func TestServeForward(t *testing.T) {
	port := server(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "got %s", all)
	})
	var p int
	fmt.Sscan(port, &p)
	s := New(nil, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	r := &rig{t: t, s: s, addr: ln.Addr().String()}
	s.o.Access = r.access
	go func() {
		served <- s.ServeForward(ln, External{Port: p, Setting: "network.httpProxyPort"}, Invocation{ID: "id", Command: "c"})
	}()
	conn := r.dial()
	_, _ = io.WriteString(conn, "\x05anything")
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(conn); string(got) != "got \x05anything" {
		t.Errorf("%q", got)
	}
	want := fmt.Sprintf(`external 127.0.0.1:%s [127.0.0.1:%[1]s external] allow {network.httpProxyPort} {} "" 9/13 id`, port)
	if got := r.accessLines(1); got[0] != want {
		t.Errorf("%s, want %s", got, want)
	}
	open := r.dial()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-served
	if _, err := open.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a connection outlives the session: %v", err)
	}
}

// Where no external proxy runs, whoever set it hears that, once.
func TestServeForwardToNobody(t *testing.T) {
	var said []string
	s := New(nil, Options{Warn: func(text string) { said = append(said, text) }})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() {
		served <- s.ServeForward(ln, External{Port: 1, Setting: "network.httpProxyPort"}, Invocation{})
	}()
	r := &rig{t: t, s: s, addr: ln.Addr().String()}
	for range 2 {
		if got, _ := io.ReadAll(r.dial()); len(got) > 0 {
			t.Errorf("%q", got)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-served
	if len(said) != 1 || !strings.Contains(said[0], "connecting to the external proxy (network.httpProxyPort): ") || !strings.Contains(said[0], "refused") {
		t.Errorf("%q", said)
	}
}

// shortListener fails to accept a few times, as with a full descriptor table.
type shortListener struct {
	net.Listener
	fails atomic.Int32
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.fails.Add(-1) >= 0 {
		return nil, shortage
	}
	return l.Listener.Accept()
}

func TestShortage(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := &shortListener{Listener: inner}
	ln.fails.Store(3)
	s := New(hostLists(t, setup{}), Options{})
	served := make(chan error)
	go func() { served <- s.Serve(ln, Invocation{}) }()
	r := &rig{t: t, addr: inner.Addr().String()}
	if got := r.exchange(connectTo("off.test:1")); status(got) != "HTTP/1.1 403 host is not on the allow list" {
		t.Errorf("%q", got)
	}
	_ = s.Close()
	<-served
}
