package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
)

// memoryListener hands out one end of each pipe that dial makes.
type memoryListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *memoryListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

// FuzzSession feeds a whole filter from both sides: with the bytes of a client
// and those of a server. Nothing is reached that is not on the list, every
// exchange ends, and what is left of it is nothing.
func FuzzSession(f *testing.F) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	f.Add([]byte("CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\nhello"), []byte("answer"))
	f.Add([]byte("GET http://a.test/ HTTP/1.1\r\nHost: a\r\n\r\nGET http://b.test/ HTTP/1.1\r\nHost: b\r\n\r\n"), []byte(ok))
	f.Add([]byte("POST http://a.test/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), []byte("HTTP/1.1 100 Continue\r\n\r\n"+ok))
	f.Add([]byte("GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nframe"), []byte("HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nframe"))
	f.Add([]byte(socksConnect("a.test", "443")+"hello"), []byte("answer"))
	f.Add([]byte("HEAD http://a.test/ HTTP/1.0\r\n\r\n"), []byte("HTTP/1.0 204 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello"))
	hosts := hostLists(f, setup{allow: []string{"a.test"}})
	// In a bubble waits cost nothing, and a goroutine that is left is a failure.
	f.Fuzz(func(t *testing.T, client, upstream []byte) {
		synctest.Test(t, func(t *testing.T) { fuzzSession(t, hosts, client, upstream) })
	})
}

func fuzzSession(t *testing.T, hosts *policy.Hosts, client, upstream []byte) {
	s := New(hosts, Options{
		OwnAddresses: func() ([]netip.Addr, error) { return nil, nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "a.test" {
				t.Errorf("%q was looked up", host)
			}
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		},
		Dial: func(_ context.Context, address string) (net.Conn, error) {
			if !strings.HasPrefix(address, "192.0.2.1:") {
				t.Errorf("%q was dialed", address)
			}
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			go func() { _, _ = far.Write(upstream); far.Close() }()
			return near, nil
		},
	})
	ln := newMemoryListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, Invocation{}) }()
	conn := ln.dial()
	go func() { _, _ = conn.Write(client) }()
	_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
	back, _ := io.ReadAll(conn)
	conn.Close()
	if len(back) > 0 && back[0] != 5 {
		if h, err := readHead(bufio.NewReaderSize(strings.NewReader(string(back)), 2*maxHead)); err == nil && statusCode(h) == 0 {
			t.Errorf("the answer to %q is %q", client, back)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("%q with %q: %v", client, upstream, err)
	}
	<-served
	if len(s.slots) != 0 {
		t.Error("a place is still taken")
	}
}
