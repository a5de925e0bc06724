package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// network 91: bytes that come with the request, or before the decision, are
// delivered first.
func TestEarlyBytes(t *testing.T) {
	early := bytes.Repeat([]byte("0123456789"), 6000)
	port := server(t, func(c *net.TCPConn) {
		got := make([]byte, len(early)+5)
		if _, err := io.ReadFull(c, got); err == nil && bytes.Equal(got, append(bytes.Clone(early), "later"...)) {
			_, _ = io.WriteString(c, "complete")
		}
	})
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	r := newRig(t, setup{options: func(o *Options) {
		o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
			asked <- struct{}{}
			<-answer
			return AskDecision{Allow: true}, nil
		}
	}})
	conn := r.dial()
	_, _ = conn.Write(append([]byte(connectTo("127.0.0.1:"+port)), early...))
	<-asked
	close(answer)
	expect(t, conn, established)
	_, _ = io.WriteString(conn, "later")
	if got, _ := io.ReadAll(conn); string(got) != "complete" {
		t.Errorf("%q", got)
	}
}

// Nobody is asked about a tunnel that is refused whatever the answer is.
func TestNoQuestionInVain(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t, setup{options: func(o *Options) {
		o.RefuseOpaqueTunnels = true
		o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
			asked.Add(1)
			return AskDecision{Allow: true}, nil
		}
	}})
	conn := r.dial()
	_, _ = io.WriteString(conn, connectTo("127.0.0.1:9"))
	if got, _ := io.ReadAll(conn); !strings.Contains(string(got), opaqueReason) {
		t.Errorf("%q", got)
	}
	if d := r.s.NewDirect(Invocation{}); d.Judge(t.Context(), netip.MustParseAddrPort("192.0.2.1:80")) {
		t.Error("a connection without a proxy is allowed")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d questions", n)
	}
}

// network 92, 93, 94: who leaves or floods while somebody is asked gets nothing.
func TestLeavingDuringDecision(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"closes": func(c *net.TCPConn) { c.Close() },
		"resets": func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"ends":   func(c *net.TCPConn) { _ = c.CloseWrite() },
		"floods": func(c *net.TCPConn) { _, _ = c.Write(make([]byte, 200_000)) },
	} {
		for _, request := range []string{connectTo("127.0.0.1:9"), socksConnect("127.0.0.1", "9"), "GET http://127.0.0.1:9/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
			if name == "floods" && strings.HasPrefix(request, "GET") {
				continue // it has to wait, see TestAskingDuringUpload
			}
			asked, left := make(chan struct{}), make(chan struct{})
			r := newRig(t, setup{options: func(o *Options) {
				o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
					close(asked)
					<-ctx.Done()
					close(left)
					return AskDecision{Allow: true}, nil
				}
				o.Dial = func(context.Context, string) (net.Conn, error) {
					t.Errorf("%s: dialed for a client that left", name)
					return nil, errors.New("no")
				}
			}})
			conn := r.dial()
			_, _ = io.WriteString(conn, request)
			<-asked
			leave(conn)
			happens(t, name+": the end of the question", left)
			if got, _ := io.ReadAll(conn); strings.Contains(string(got), "HTTP") {
				t.Errorf("%s: %q", name, got)
			}
			if got := r.lines(); got != "" {
				t.Errorf("%s: recorded %s", name, got)
			}
		}
	}
}

// What is dialed for a client that left meanwhile is closed again.
func TestLeavingDuringDial(t *testing.T) {
	dialing, closed := make(chan struct{}), make(chan struct{})
	port := server(t, func(c *net.TCPConn) {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			close(closed)
		}
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			close(dialing)
			<-ctx.Done() // it is known that the client left
			return net.Dial("tcp", address)
		}
	}})
	conn := r.dial()
	_, _ = io.WriteString(conn, connectTo("127.0.0.1:"+port))
	<-dialing
	_ = conn.CloseWrite()
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("%q", got)
	}
	happens(t, "the end of the connection", closed)
}

// cli 68, 69, 70, network 43, 44, 45, 46, 47: what a callback may answer and do. Its argument is the
// canonical host, the spelling of the client is beside it.
func TestAsk(t *testing.T) {
	port := server(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "up") })
	var questions atomic.Int32
	r := newRig(t, setup{deny: []string{"10.0.0.1"}, options: func(o *Options) {
		o.Ask = func(_ context.Context, q AskRequest) (AskDecision, error) {
			questions.Add(1)
			switch {
			case q == AskRequest{Host: "127.0.0.1", Port: q.Port, Spelling: "127.1", Command: "cmd", CommandID: "id"}:
				return AskDecision{Allow: true}, nil
			case q.Host == "panics.invalid":
				panic("boom")
			case q.Host == "ends.invalid":
				runtime.Goexit()
			case q.Host == "fails.invalid":
				return AskDecision{Allow: true}, errors.New("no terminal")
			case q.Host == "long.invalid":
				return AskDecision{Reason: strings.Repeat("x", 499) + "\U0001F600"}, nil
			case q.Host == "longer.invalid":
				return AskDecision{Reason: strings.Repeat("x", 2000)}, nil
			case q.Host == "foreign.invalid":
				return AskDecision{Reason: "caf\u00e9"}, nil
			case q.Host == "mute.invalid":
				return AskDecision{Reason: " \n"}, nil
			}
			return AskDecision{Reason: "do\nthis <now>"}, nil
		}
	}})
	for target, c := range map[string][2]string{
		"127.1:" + port:     {"200 Connection Established", ""},
		"HOST.invalid.:443": {"403 do this now", "deny network-outbound host.invalid:443 (do this now)"},
		"mute.invalid:1":    {"403 user denied", "deny network-outbound mute.invalid:1 (user denied)"},
		"long.invalid:1":    {"403 " + strings.Repeat("x", 499), "deny network-outbound long.invalid:1 (" + strings.Repeat("x", 499) + ")"},
		"longer.invalid:1":  {"403 " + strings.Repeat("x", 500), "deny network-outbound longer.invalid:1 (" + strings.Repeat("x", 500) + ")"},
		"foreign.invalid:1": {"403 caf?", "deny network-outbound foreign.invalid:1 (caf\u00e9)"},
		"panics.invalid:1":  {"403 permission prompt failed", "deny network-outbound panics.invalid:1 (permission prompt failed)"},
		"ends.invalid:1":    {"403 permission prompt failed", "deny network-outbound ends.invalid:1 (permission prompt failed)"},
		"fails.invalid:1":   {"403 permission prompt failed", "deny network-outbound fails.invalid:1 (permission prompt failed)"},
		"10.0.0.1:1":        {"403 host is on the deny list", "deny network-outbound 10.0.0.1:1 (host is on the deny list)"},
		"a b.invalid:1":     {"400 Bad Request", ""},
		"a%b.invalid:1":     {"403 malformed host", "deny network-outbound a%b.invalid:1 (malformed host)"},
	} {
		if got := status(r.exchange(connectTo(target))); got != "HTTP/1.1 "+c[0] {
			t.Errorf("%s: %q", target, got)
		}
		if got := r.lines(); got != c[1] {
			t.Errorf("%s: %q", target, got)
		}
	}
	if n := questions.Load(); n != 9 {
		t.Errorf("%d questions", n)
	}
}

// network 41, 48
func TestAskRules(t *testing.T) {
	var questions atomic.Int32
	count := func(o *Options) {
		o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
			questions.Add(1)
			return AskDecision{}, nil
		}
	}
	strict := newRig(t, setup{network: func(n *config.Network) { n.StrictAllowlist = true }, options: count})
	if got := strict.exchange(connectTo("off.test:1")); status(got) != "HTTP/1.1 403 host is not on the allow list" || questions.Load() != 0 {
		t.Errorf("%q after %d questions", got, questions.Load())
	}
	open := newRig(t, setup{options: count})
	done := make(chan struct{})
	for range 3 {
		go func() { open.exchange(connectTo("off.test:1")); done <- struct{}{} }()
	}
	for range 3 {
		<-done
	}
	if n := questions.Load(); n != 3 {
		t.Errorf("%d questions for three connections", n)
	}
}
