package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/srt-sandbox/srt/internal/violation"
)

// A command's connections end with its listener; those of others go on.
func TestListenersAreIndependent(t *testing.T) {
	port := echoServer(t)
	store := violation.NewStore()
	s := New(hostLists(t, setup{allow: []string{"127.0.0.1"}}), Options{Record: store.Add})
	var listeners []net.Listener
	var conns []*rig
	for i := range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln, Invocation{ID: fmt.Sprint("id", i), Command: "c"}) }()
		listeners = append(listeners, ln)
		conns = append(conns, &rig{t: t, s: s, addr: ln.Addr().String(), served: served})
	}
	first, second := conns[0].tunnel("127.0.0.1:"+port), conns[1].tunnel("127.0.0.1:"+port)
	conns[0].exchange(connectTo("off.test:1"))
	conns[1].exchange(connectTo("off.test:2"))
	if a, b := store.ForCommand("id0"), store.ForCommand("id1"); len(a) != 1 || len(b) != 1 || a[0].Target != "off.test:1" || b[0].Target != "off.test:2" {
		t.Errorf("%+v %+v", a, b)
	}
	listeners[0].Close()
	if err := <-conns[0].served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a tunnel outlives its command: %v", err)
	}
	_, _ = io.WriteString(second, "hi")
	expect(t, second, "hi")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-conns[1].served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	if err := s.Serve(ln, Invocation{}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("a closed session left a listener")
	}
}

// network 144: everything ends with the session, whatever it waits for.
func TestClose(t *testing.T) {
	silent := server(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	var under sync.WaitGroup
	under.Add(2)
	s := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: waitForEver, options: func(o *Options) {
		o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
			under.Done()
			<-ctx.Done()
			return AskDecision{}, ctx.Err()
		}
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if strings.HasSuffix(address, ":9") {
				under.Done()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}})
	conns := []*net.TCPConn{s.tunnel("127.0.0.1:" + silent), s.socksTunnel("127.0.0.1", silent)}
	for _, raw := range []string{
		connectTo("127.0.0.1:9"), connectTo("off.test:1"), "GET http://127.0.0.1:" + silent + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET ", "\x05\x01",
		"POST http://127.0.0.1:" + silent + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
	} {
		conn := s.dial()
		_, _ = io.WriteString(conn, raw)
		conns = append(conns, conn)
	}
	under.Wait()
	half := s.tunnel("127.0.0.1:" + silent)
	_ = half.CloseWrite()
	if err := s.s.Close(); err != nil { // the session's end, for nothing ends by itself
		t.Error(err)
	}
	for _, c := range conns {
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("a connection stays open")
		}
	}
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		conn.Close()
		t.Error("the port stays open")
	}
	if s.lines() != "" {
		t.Error("what was cancelled was recorded")
	}
}

// network 144: a callback that ignores its context holds up neither the end nor
// its client, and its answer is dropped.
func TestCloseWithStubbornCallback(t *testing.T) {
	asked, release, done := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
	r := newRig(t, setup{options: func(o *Options) {
		o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
			asked <- struct{}{}
			<-release
			done <- struct{}{}
			return AskDecision{Allow: true}, nil
		}
		o.Dial = func(context.Context, string) (net.Conn, error) {
			t.Error("dialed for a client that left")
			return nil, errors.New("no")
		}
	}})
	for range 2 {
		conn := r.dial()
		_, _ = io.WriteString(conn, connectTo("off.test:1"))
		<-asked
		conn.Close()
	}
	eventually(t, "giving the connections up", func() bool { return len(r.s.slots) == 0 })
	if err := r.s.Close(); err != nil { // although the callbacks have not returned
		t.Error(err)
	}
	close(release)
	<-done
	<-done
}
