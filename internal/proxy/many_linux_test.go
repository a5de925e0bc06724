package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

const (
	manyTunnels = 5000
	// manyMemory is what the filter's process may take for them, in KiB.
	manyMemory = 100 << 10
)

// TestFilterProcess is the filter of TestThousandsOfTunnels in a process of its own,
// so that its memory and its descriptors can be told apart. By itself it only starts
// and ends.
func TestFilterProcess(t *testing.T) {
	s := New(hostLists(t, setup{allow: []string{"127.0.0.1"}}), Options{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		if strings.HasSuffix(address, ":9") { // a server that never answers
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln, Invocation{}) }()
	fmt.Printf("listening on %s\n", ln.Addr())
	if os.Getenv("SRT_TEST_FILTER_PROCESS") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// startFilterProcess returns the filter's address and process number.
func startFilterProcess(t *testing.T) (addr string, pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFilterProcess$")
	cmd.Env = append(os.Environ(), "SRT_TEST_FILTER_PROCESS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the filter's process: %v", err)
		}
	})
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("starting the filter's process: %v", err)
		}
		if addr, ok := strings.CutPrefix(line, "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return strings.TrimSpace(addr), cmd.Process.Pid
		}
	}
}

// Thousands of tunnels at once stand, move bytes, cost little and leave nothing.
func TestThousandsOfTunnels(t *testing.T) {
	testutil.NeedFiles(t, 2*manyTunnels+200)
	echo := server(t, func(c *net.TCPConn) { // without pipes, which io.Copy would take
		for buf := make([]byte, 16); ; {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			_, _ = c.Write(buf[:n])
		}
	})
	addr, pid := startFilterProcess(t)
	one := func() net.Conn {
		conn, err := net.DialTimeout("tcp", addr, testutil.Patience)
		if err != nil {
			t.Error(err)
			return nil
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		request := connectTo("127.0.0.1:" + echo)
		got := make([]byte, len(established)+1)
		if _, err := io.WriteString(conn, request+"x"); err != nil {
			t.Error(err)
		} else if _, err := io.ReadFull(conn, got); err != nil || string(got) != established+"x" {
			t.Errorf("%q, %v", got, err)
		}
		return conn
	}
	one().Close()
	idle := openFiles(t, pid)

	conns := make([]net.Conn, manyTunnels)
	var group sync.WaitGroup
	for k := range 20 {
		group.Go(func() {
			for i := k; i < manyTunnels; i += 20 {
				conns[i] = one()
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	used := residentKiB(t, pid)
	t.Logf("%d tunnels: %d KiB, %d descriptors", manyTunnels, used, openFiles(t, pid))
	if used > manyMemory && !raceEnabled {
		t.Errorf("the filter takes %d KiB for %d tunnels, want at most %d", used, manyTunnels, manyMemory)
	}
	for i, c := range conns { // each of them still works
		buf := []byte{byte(i)}
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil || buf[0] != byte(i) {
			t.Fatalf("tunnel %d: %d, %v", i, buf[0], err)
		}
		c.Close()
	}
	left := 0
	if !testutil.Within(testutil.Patience, func() bool { left = openFiles(t, pid); return left <= idle+2*maxIdlePipes }) { // pipes are kept for the next ones
		t.Errorf("%d descriptors are open after all tunnels ended, %d were before", left, idle)
	}
	one().Close()
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
