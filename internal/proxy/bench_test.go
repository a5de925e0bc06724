package proxy

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// plainRelay is what a tunnel is compared with: a TCP relay that decides nothing.
func plainRelay(b *testing.B, port string) string {
	s := New(nil, Options{})
	return server(b, func(c *net.TCPConn) {
		up, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Error(err)
			return
		}
		defer up.Close()
		s.relay(c, up, nil, nil)
	})
}

// BenchmarkTunnel measures the bytes that go through a tunnel.
func BenchmarkTunnel(b *testing.B) {
	sink := server(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	r := newRig(b, setup{allow: []string{"127.0.0.1"}})
	dial := func(port string) net.Conn {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	for _, c := range []struct {
		name string
		open func() net.Conn
	}{
		{"direct", func() net.Conn { return dial(sink) }},
		{"relay", func() net.Conn { return dial(plainRelay(b, sink)) }},
		{"connect", func() net.Conn { return r.tunnel("127.0.0.1:" + sink) }},
		{"socks", func() net.Conn { return r.socksTunnel("127.0.0.1", sink) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			conn := c.open()
			defer conn.Close()
			buf := make([]byte, 256<<10)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if _, err := conn.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkShortConnects measures whole connections: accept, decide, dial,
// answer, one byte each way, end.
func BenchmarkShortConnects(b *testing.B) {
	echo := server(b, func(c *net.TCPConn) {
		one := make([]byte, 1)
		if _, err := io.ReadFull(c, one); err == nil {
			_, _ = c.Write(one)
		}
	})
	exchange := func(b *testing.B, addr, request, answer string) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, request+"x")
		got := make([]byte, len(answer)+1)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != answer+"x" {
			b.Errorf("%q, %v", got, err)
		}
	}
	relay := plainRelay(b, echo)
	b.Run("relay", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				exchange(b, "127.0.0.1:"+relay, "", "")
			}
		})
	})
	for _, rules := range []int{10, 10_000} {
		allow := []string{"127.0.0.1"}
		for i := range rules {
			allow = append(allow, fmt.Sprintf("*.h%d.example.com", i))
		}
		r := newRig(b, setup{allow: allow})
		b.Run(fmt.Sprintf("connect/rules=%d", rules), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					exchange(b, r.addr, connectTo("127.0.0.1:"+echo), established)
				}
			})
		})
	}
}
