package proxy

import (
	"bufio"
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

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/testutil"
	"github.com/srt-sandbox/srt/internal/violation"
)

func TestMain(m *testing.M) { testutil.RunWithoutLeaks(m) }

// setup says how a rig differs from a filter that allows nothing.
type setup struct {
	allow, deny []string
	network     func(*config.Network)
	options     func(*Options)
	waits       func(*waits)
	who         Invocation
	names       map[string]string // what names resolve to, addresses separated by blanks
}

// rig is a filter with one listener, and what it refused and looked up.
type rig struct {
	t      testing.TB
	s      *Session
	addr   string
	served chan error

	mu       sync.Mutex
	events   []violation.Event
	accesses []Access
	lookups  []string
}

func hostLists(t testing.TB, u setup) *policy.Hosts {
	t.Helper()
	c := config.Default()
	c.Network.AllowedDomains, c.Network.DeniedDomains = u.allow, u.deny
	if u.network != nil {
		u.network(&c.Network)
	}
	h, err := policy.NewHosts(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newRig(t testing.TB, u setup) *rig {
	t.Helper()
	r := &rig{t: t, served: make(chan error, 1)}
	o := Options{Record: r.record, Access: r.access, Lookup: r.lookup(u.names), OwnAddresses: func() ([]netip.Addr, error) { return nil, nil }}
	if u.options != nil {
		u.options(&o)
	}
	r.s = New(hostLists(t, u), o)
	r.s.waits.close = testutil.Patience
	if u.waits != nil {
		u.waits(&r.s.waits)
	}
	if u.who.Command == "" && u.who.Token == "" {
		u.who.ID, u.who.Command = "id", "cmd"
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	ln = asInSandbox(t, ln)
	go func() { r.served <- r.s.Serve(ln, u.who) }()
	t.Cleanup(func() {
		if err := r.s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-r.served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) record(e violation.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) access(a Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accesses = append(r.accesses, a)
}

func (r *rig) lookup(names map[string]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		r.mu.Lock()
		r.lookups = append(r.lookups, host)
		r.mu.Unlock()
		answer, ok := names[host]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		var all []netip.Addr
		for _, a := range strings.Fields(answer) {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

// lookedUp is how many names were looked up.
func (r *rig) lookedUp() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lookups)
}

// lines are the recorded lines, which are then forgotten.
func (r *rig) lines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.events {
		all = append(all, e.Line)
	}
	r.events = nil
	return strings.Join(all, "\n")
}

func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	return conn.(*net.TCPConn)
}

// exchange sends raw bytes and returns all that comes back until the end.
func (r *rig) exchange(raw string) string {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, raw)
	back, _ := io.ReadAll(conn)
	return string(back)
}

func connectTo(authority string) string {
	return "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n"
}

const established = "HTTP/1.1 200 Connection Established\r\n\r\n"

// tunnel opens a tunnel.
func (r *rig) tunnel(authority string) *net.TCPConn {
	r.t.Helper()
	conn := r.dial()
	_, _ = io.WriteString(conn, connectTo(authority))
	expect(r.t, conn, established)
	return conn
}

// expect reads exactly what is wanted.
func expect(t testing.TB, conn io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// status is the first line of an answer.
func status(answer string) string {
	line, _, _ := strings.Cut(answer, "\r\n")
	return line
}

// server runs handle for each connection and returns its port.
func server(t testing.TB, handle func(*net.TCPConn)) (port string) {
	t.Helper()
	ln := testutil.Listen(t)
	testutil.Serve(t, ln, func(conn net.Conn) { handle(conn.(*net.TCPConn)) })
	return testutil.Port(ln)
}

func echoServer(t testing.TB) string {
	return server(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
}

// untouched is a server that must not be reached.
func untouched(t testing.TB) string {
	return server(t, func(*net.TCPConn) { t.Error("the server was reached") })
}

// webServer hands the head of each request to respond.
func webServer(t testing.TB, respond func(head string, body *bufio.Reader, w io.Writer)) string {
	return server(t, func(conn *net.TCPConn) {
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
}

// echoHead answers with the head of the request.
func echoHead(head string, _ *bufio.Reader, w io.Writer) {
	fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
}

// readBody reads a request's body as a server does.
func readBody(head string, r *bufio.Reader) (string, error) {
	f := framing{}
	if strings.Contains(head, "Transfer-Encoding: chunked\r\n") {
		f.chunked = true
	} else if _, rest, ok := strings.Cut(head, "Content-Length: "); ok {
		f.sized = true
		fmt.Sscan(rest, &f.length)
	}
	body, err := io.ReadAll(newBody(r, f, false))
	return string(body), err
}

// closedPort is a port that nobody listens on.
func closedPort(t testing.TB) string { t.Helper(); return testutil.ReservedPort(t) }

// eventually waits for something that happens in another goroutine.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	testutil.Eventually(t, what, done)
}

// happens waits for a channel to be closed or to deliver.
func happens[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testutil.Patience):
		t.Errorf("waited for %s", what)
	}
}
