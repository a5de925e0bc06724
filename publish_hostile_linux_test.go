package srt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// misbehaveInside is a server at four ports: one that works, one that never
// accepts, one that breaks every connection, one that says more than anybody reads.
func misbehaveInside([]string) int {
	silent, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(silent, &syscall.SockaddrInet4{Port: 4002, Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(silent, 0))
	}
	breaking, err2 := net.Listen("tcp", "127.0.0.1:4003")
	talking, err3 := net.Listen("tcp", "127.0.0.1:4004")
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, "misbehaving:", err)
		return 1
	}
	each := func(ln net.Listener, do func(net.Conn)) {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go do(conn)
		}
	}
	go each(breaking, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() })
	go each(talking, func(c net.Conn) {
		for err := error(nil); err == nil; {
			_, err = c.Write(make([]byte, 1<<16))
		}
	})
	return serveInside([]string{"0s", "127.0.0.1:4001"})
}

// Servers that misbehave, a port that nobody serves and strangers who connect
// without end keep neither a good server from its clients nor srt-init from its
// work, and leave nothing behind.
func TestPublishHostile(t *testing.T) {
	sb := newSandbox(t, nil)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := sb.Shell(t.Context(), `SRT_TEST_COMMAND=misbehave "$0" & read x; for i in {1..60}; do mkdir d$i; touch .bashrc 2>/dev/null; done; echo worked; read x; kill $!`, exe)
	in, err := newPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	var out safeBuffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = workDir(t), in.r, &out, os.Stderr
	for port := range 5 {
		cmd.Publish = append(cmd.Publish, config.Publish{Inside: 4001 + port})
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ports := cmd.Published()
	if _, _, err := exchange(ports[0].Addr.String(), "up"); err != nil {
		t.Fatal(err)
	}
	var clients []net.Conn
	for range 150 {
		for _, p := range ports[1:] {
			conn, err := net.Dial("tcp", p.Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, conn)
		}
	}
	_, _ = io.WriteString(in.w, "go\n")
	for i := range 20 {
		before := time.Now()
		if _, back, err := exchange(ports[0].Addr.String(), "text"); err != nil || back != "TEXT" {
			t.Errorf("connection %d: %q, %v", i, back, err)
		}
		if took := time.Since(before); took > 30*time.Second { // three times what each of the others may take
			t.Errorf("connection %d took %v", i, took)
		}
	}
	testutil.Eventually(t, "the work of the command", func() bool { return strings.Contains(out.String(), "worked") })
	for _, c := range clients {
		c.Close()
	}
	_, _ = io.WriteString(in.w, "end\n")
	_ = cmd.Wait() // killed or not: the server has no good end
	if v := cmd.Violations(); len(v) == 0 {
		t.Error("the guard reported nothing")
	}
}

type testPipe struct{ r, w *os.File }

func newPipe(t *testing.T) (p testPipe, err error) {
	p.r, p.w, err = os.Pipe()
	t.Cleanup(func() { p.r.Close(); p.w.Close() })
	return p, err
}

// safeBuffer is a buffer that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
