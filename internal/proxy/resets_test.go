package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
)

// ending is how a connection breaks off.
type ending string

const (
	withReset ending = "reset"
	withEnd   ending = "end"
	withHang  ending = "hang" // nothing more is said
)

// breakOff says the first n bytes of an answer and then breaks off.
func breakOff(c *net.TCPConn, answer string, n int, how ending) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, _ = io.WriteString(c, answer[:n])
	switch how {
	case withReset:
		_ = c.SetLinger(0)
	case withHang:
		time.Sleep(80 * time.Millisecond) // longer than the filter waits
	}
	c.Close()
}

// openDescriptors counts this process's descriptors but for pipes, of which a few
// are kept for the next tunnels; 0 where that is not known.
func openDescriptors() (n int) {
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if target, err := os.Readlink(name); err == nil && !strings.HasPrefix(target, "pipe:") {
			n++
		}
	}
	return n
}

// Next hops of every kind break off after every byte of their answer, in every
// way. The client always gets an answer or the end, nobody else is tried, and
// nothing is left: no goroutine, no descriptor, no place.
func TestHopsBreakOff(t *testing.T) {
	httpAnswer := "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"
	socksAnswer := "\x05\x02\x01\x00\x05\x00\x00\x03\x02ab\x00\x01"
	for name, hop := range map[string]struct {
		url, answer string
	}{
		"HTTP parent": {"http://u:p@127.0.0.1:", httpAnswer}, "SOCKS parent": {"socks5h://u:p@127.0.0.1:", socksAnswer}, "TLS parent": {"https://127.0.0.1:", "\x16\x03\x03\x00\x04\x02\x00\x00\x00"},
	} {
		for _, how := range []ending{withReset, withEnd, withHang} {
			t.Run(name+" "+string(how), func(t *testing.T) {
				var at atomic.Int64
				port := server(t, func(c *net.TCPConn) { breakOff(c, hop.answer, int(at.Load()), how) })
				r := newRig(t, setup{allow: []string{"a.test"}, options: via(t, &config.ParentProxy{HTTP: text(hop.url + port)}, env()), waits: func(w *waits) {
					w.dial, w.linger, w.drain = 50*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
				}})
				r.exchange(connectTo("a.test:443"))
				goroutines, descriptors := r.goroutines(), openDescriptors()
				for cut := range len(hop.answer) {
					at.Store(int64(cut))
					if got := r.exchange(connectTo("a.test:443")); status(got) != "HTTP/1.1 502 Bad Gateway" {
						t.Errorf("CONNECT, cut at %d: %q", cut, got)
					}
					if got := r.exchange(socksConnect("a.test", "443")); got != "\x05\x00"+string(socksReply(socksHostUnreachable)) {
						t.Errorf("SOCKS, cut at %d: % x", cut, got)
					}
					if how == withHang && cut%4 != 0 {
						continue // each costs the whole wait
					}
					if got := r.exchange("GET https://a.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); status(got) != "HTTP/1.1 502 Bad Gateway" {
						t.Errorf("GET, cut at %d: %q", cut, got)
					}
				}
				settled(t, r, goroutines, descriptors)
				if len(r.lookups) > 0 || r.lines() != "" {
					t.Errorf("looked up %v or recorded something", r.lookups)
				}
			})
		}
	}
}

// goroutines counts those that do something; workers wait for the next connection.
func (r *rig) goroutines() int { return runtime.NumGoroutine() - int(r.s.workers.idle.Load()) }

// settled waits until a rig holds no more than before.
func settled(t *testing.T, r *rig, goroutines, descriptors int) {
	t.Helper()
	eventually(t, "the end of all connections", func() bool { return len(r.s.slots) == 0 })
	eventually(t, "the end of all goroutines", func() bool { return r.goroutines() <= goroutines+2 })
	eventually(t, "the closing of all descriptors", func() bool { return openDescriptors() <= descriptors+2 })
}

// A tunnel whose far end breaks off at every stage: before a byte, after some,
// after the client's end, with data under way in both directions.
func TestTunnelsBreakOff(t *testing.T) {
	const answer = "some bytes of a tunnel"
	for _, how := range []ending{withReset, withEnd} {
		var at atomic.Int64
		port := server(t, func(c *net.TCPConn) { breakOff(c, answer, int(at.Load()), how) })
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) {
			if w.linger = 10 * time.Millisecond; how == withReset {
				w.drain = 20 * time.Millisecond // where the end is proper, every byte has to arrive
			}
		}})
		r.exchange(connectTo("127.0.0.1:" + port))
		goroutines, descriptors := r.goroutines(), openDescriptors()
		for cut := range len(answer) {
			at.Store(int64(cut))
			for _, raw := range []string{
				connectTo("127.0.0.1:" + port), connectTo("127.0.0.1:"+port) + strings.Repeat("x", 30<<10), socksConnect("127.0.0.1", port), socksConnect("127.0.0.1", port) + "early",
			} {
				conn := r.dial()
				_, _ = io.WriteString(conn, raw)
				first := established
				if raw[0] == 5 {
					first = "\x05\x00" + string(socksReply(socksSucceeded))
				}
				if _, err := io.CopyN(io.Discard, conn, int64(len(first))); err == nil && cut%2 == 0 {
					_ = conn.CloseWrite()
				}
				got, err := io.ReadAll(conn)
				if isTimeout(err) {
					t.Errorf("%s after %d: the client waits for ever", how, cut)
				}
				if how == withEnd && string(got) != answer[:cut] {
					t.Errorf("%s after %d: %q", how, cut, got)
				}
				conn.Close()
			}
		}
		settled(t, r, goroutines, descriptors)
	}
}

// A TLS server of an https URI that breaks off within the handshake, at many
// places of it.
func TestHandshakesBreakOff(t *testing.T) {
	ts := httptest.NewUnstartedServer(nil)
	ts.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(ts.Certificate())
	certificate := ts.TLS.Certificates[0]
	ts.Close()
	var limit atomic.Int64
	port := server(t, func(c *net.TCPConn) {
		secure := tls.Server(&limited{TCPConn: c, left: int(limit.Load())}, &tls.Config{Certificates: []tls.Certificate{certificate}})
		if secure.Handshake() == nil {
			_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		_ = c.SetLinger(0)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.Roots = roots }, waits: func(w *waits) { w.dial = 2 * time.Second }})
	get := fmt.Sprintf("GET https://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", port)
	r.exchange(get)
	goroutines, descriptors := r.goroutines(), openDescriptors()
	for n := int64(0); n < 900; n += 37 {
		limit.Store(n)
		if got := r.exchange(get); status(got) != "HTTP/1.1 502 Bad Gateway" {
			t.Errorf("after %d bytes: %q", n, got)
		}
	}
	settled(t, r, goroutines, descriptors)
}

// limited is a connection that is reset after some bytes were written.
type limited struct {
	*net.TCPConn
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		_, _ = l.TCPConn.Write(p[:l.left])
		_ = l.SetLinger(0)
		l.Close()
		return 0, net.ErrClosed
	}
	l.left -= len(p)
	return l.TCPConn.Write(p)
}

// A server that never stops talking waits for its client: what is not read is
// not gathered here.
func TestBackpressure(t *testing.T) {
	sent := make(chan int64, 2)
	port := server(t, func(c *net.TCPConn) {
		_ = c.SetDeadline(time.Now().Add(700 * time.Millisecond))
		var n int64
		buf := make([]byte, 1<<20)
		for {
			m, err := c.Write(buf)
			n += int64(m)
			if err != nil {
				sent <- n
				return
			}
		}
	})
	web := server(t, func(c *net.TCPConn) {
		_, _ = readHead(bufio.NewReader(c))
		_ = c.SetDeadline(time.Now().Add(700 * time.Millisecond))
		n := int64(0)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		buf := make([]byte, 1<<20)
		for {
			m, err := c.Write(buf)
			n += int64(m)
			if err != nil {
				sent <- n
				return
			}
		}
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	r.tunnel("127.0.0.1:" + port) // whose client reads nothing
	conn := r.dial()
	_, _ = fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", web)
	for range 2 {
		if n := <-sent; n > 32<<20 { // the kernel's buffers take some
			t.Errorf("%d bytes went somewhere", n)
		}
	}
}

// A server that sends the head of its answer byte for byte, for as long as it
// likes, does not outlive its client.
func TestTricklingServer(t *testing.T) {
	ended := make(chan struct{})
	port := server(t, func(c *net.TCPConn) {
		defer close(ended)
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
		for err == nil {
			time.Sleep(2 * time.Millisecond)
			_, err = io.WriteString(c, "y")
		}
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	_, _ = fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n", port)
	time.Sleep(30 * time.Millisecond)
	_ = conn.SetLinger(0)
	conn.Close()
	happens(t, "the end of the server, which talks to nobody", ended)
}
