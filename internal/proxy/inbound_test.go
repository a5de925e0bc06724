package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// inbound serves a published port whose server inside is inside, and returns its
// address and a function that closes it and waits.
func inbound(t *testing.T, r *rig, ctx context.Context, dial func(context.Context) (net.Conn, error)) (address string, end func()) {
	t.Helper()
	ln := listen(t)
	done := make(chan error, 1)
	go func() { done <- r.s.ServeInbound(ctx, ln, dial) }()
	return ln.Addr().String(), sync.OnceFunc(func() {
		ln.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func connect(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	return conn.(*net.TCPConn)
}

func dialing(ln net.Listener) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp4", ln.Addr().String())
	}
}

// Each direction ends on its own, whichever side ends first, and no byte is lost.
func TestInboundHalfClose(t *testing.T) {
	r := newRig(t, setup{})
	server := listen(t)
	address, end := inbound(t, r, t.Context(), dialing(server))
	defer end()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

	client := connect(t, address)
	inside, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.Write(sent); client.CloseWrite() }()
	if got, err := io.ReadAll(inside); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("inside read %d bytes, %v", len(got), err)
	}
	go func() { _, _ = inside.Write(sent); inside.Close() }()
	if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("outside read %d bytes, %v", len(got), err)
	}

	second := connect(t, address)
	other, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, _ = io.WriteString(other, "bye")
	other.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(second); err != nil || string(got) != "bye" {
		t.Errorf("outside read %q, %v", got, err)
	}
	_, _ = io.WriteString(second, "still there")
	second.Close()
	if got, err := io.ReadAll(other); err != nil || string(got) != "still there" {
		t.Errorf("inside read %q, %v", got, err)
	}
}

// A server that never listens costs the client a bounded wait, and it sees a
// failure, not an empty answer.
func TestInboundWithoutServer(t *testing.T) {
	r := newRig(t, setup{waits: func(w *waits) { w.inbound = 50 * time.Millisecond }})
	address, end := inbound(t, r, t.Context(), func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	defer end()
	if n, err := connect(t, address).Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// What the server said before it ended arrives; a client that does not leave is
// cut after a moment.
func TestInboundFarewell(t *testing.T) {
	const farewell = 2 * time.Second // enough to read all of it on a busy machine
	r := newRig(t, setup{waits: func(w *waits) { w.farewell = farewell }})
	server := listen(t)
	address, end := inbound(t, r, t.Context(), dialing(server))
	client, stubborn := connect(t, address), connect(t, address)
	want := bytes.Repeat([]byte("x"), 1<<20)
	for range 2 {
		inside, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = inside.Write(want); inside.Close() }()
	}
	got := make(chan []byte, 1)
	go func() { all, _ := io.ReadAll(client); client.Close(); got <- all }()
	before := time.Now()
	end()
	if took := time.Since(before); took < farewell*4/5 {
		t.Errorf("the end took %v", took)
	}
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes arrived", len(all))
	}
	if _, err := io.Copy(io.Discard, stubborn); err == nil {
		eventually(t, "the end of the connection", func() bool { // which the second write may be told
			_, err := stubborn.Write([]byte("x"))
			return err != nil
		})
	}
}

// The end of the sandbox's owner cuts at once.
func TestInboundCut(t *testing.T) {
	r := newRig(t, setup{waits: func(w *waits) { w.farewell = time.Hour }})
	server := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	address, end := inbound(t, r, ctx, dialing(server))
	client := connect(t, address)
	inside, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	cancel()
	end()
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection still works")
	}
}

// Strangers who flood a published port are refused beyond a bound, and take none
// of the slots that the command's own connections need.
func TestInboundFlood(t *testing.T) {
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.MaxConns = 2 }})
	server := listen(t)
	var held []net.Conn
	var mu sync.Mutex
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	}()
	address, end := inbound(t, r, t.Context(), dialing(server))
	const more = 40
	refused := 0
	clients := make([]*net.TCPConn, maxInbound+more)
	for i := range clients {
		clients[i] = connect(t, address)
	}
	for _, c := range clients[maxInbound:] {
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			refused++
		}
	}
	if refused != more {
		t.Errorf("%d of %d connections too many were refused", refused, more)
	}
	if len(r.s.slots) != 0 {
		t.Errorf("%d slots of the filter are taken", len(r.s.slots))
	}
	for _, c := range clients {
		c.Close()
	}
	end()
	mu.Lock()
	defer mu.Unlock()
	for _, c := range held {
		c.Close()
	}
}
