package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// tcpPair returns the two ends of a connection over the loopback interface.
func tcpPair(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	one, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	two, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); two.Close() })
	return one.(*net.TCPConn), two.(*net.TCPConn)
}

func newPool(t testing.TB) *pipePool {
	pool := &pipePool{}
	t.Cleanup(pool.close)
	return pool
}

// copying starts a copy and returns the ends that a client and a server hold,
// and the outcome.
func copying(t testing.TB, pool *pipePool) (client, server *net.TCPConn, done chan error, moved *int64) {
	client, from := tcpPair(t)
	to, server := tcpPair(t)
	done, moved = make(chan error, 1), new(int64)
	go func() {
		n, err := pool.copyConn(to, from)
		*moved = n
		_ = to.CloseWrite()
		done <- err
	}()
	return client, server, done, moved
}

func TestCopyKeepsEveryByte(t *testing.T) {
	client, server, done, moved := copying(t, newPool(t))
	const total = 32 << 20
	sent := sha256.New()
	go func() {
		random := rand.New(rand.NewPCG(1, 2))
		defer client.CloseWrite()
		for left := total; left > 0; {
			piece := make([]byte, min(left, 1+random.IntN(300_000)))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			sent.Write(piece)
			if _, err := client.Write(piece); err != nil {
				return
			}
			left -= len(piece)
		}
	}()
	got := sha256.New()
	random := rand.New(rand.NewPCG(3, 4))
	buf := make([]byte, 100_000)
	for {
		n, err := server.Read(buf[:1+random.IntN(len(buf)-1)])
		got.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if err := <-done; err != nil || *moved != total {
		t.Errorf("copied %d bytes, %v", *moved, err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("the bytes that arrived are others")
	}
}

// A deadline ends a copy that waits for a reader, and what was not delivered is
// not delivered to anybody else.
func TestCopyToASlowReader(t *testing.T) {
	pool := newPool(t)
	client, from := tcpPair(t)
	to, server := tcpPair(t)
	_ = to.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	go func() { // more than the buffers of all sockets and the pipe hold
		secret := bytes.Repeat([]byte("secret"), 1<<20)
		for range 8 {
			if _, err := client.Write(secret); err != nil {
				return
			}
		}
	}()
	if _, err := pool.copyConn(to, from); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the copy ended with %v", err)
	}
	to.Close()
	from.Close()
	server.Close()
	for range 20 {
		client, server, done, _ := copying(t, pool)
		if _, err := client.Write([]byte("mine")); err != nil {
			t.Fatal(err)
		}
		_ = client.CloseWrite()
		if got, err := io.ReadAll(server); string(got) != "mine" || err != nil {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopyEndsWithItsConnections(t *testing.T) {
	for name, end := range map[string]func(client, server *net.TCPConn){
		"client resets": func(client, _ *net.TCPConn) { _ = client.SetLinger(0); client.Close() },
		"server resets": func(client, server *net.TCPConn) {
			_ = server.SetLinger(0)
			server.Close()
			for range 100 {
				if _, err := client.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server, done, _ := copying(t, newPool(t))
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			end(client, server)
			happens(t, "the end of the copy", done)
		})
	}
}

// Tunnels can stand for days; one that is silent holds nothing but its two ends.
func TestIdleTunnelsHoldNoPipes(t *testing.T) {
	before := openPipes(t)
	const tunnels = 10 * maxIdlePipes
	pool := newPool(t)
	for range tunnels {
		client, server, _, _ := copying(t, pool)
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// The last ones may be between the last byte and the wait for the next.
	held := 0
	atMost := func(n int) bool { held = openPipes(t) - before; return held <= n }
	if !testutil.Within(testutil.Patience, func() bool { return atMost(2 * maxIdlePipes) }) {
		t.Errorf("%d ends of pipes are open for %d idle tunnels", held, tunnels)
	}
	pool.close()
	if !testutil.Within(testutil.Patience, func() bool { return atMost(0) }) {
		t.Errorf("%d ends of pipes are open after the end", held)
	}
}

func openPipes(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range all {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, "pipe:") {
			n++
		}
	}
	return n
}
