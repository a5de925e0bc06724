package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// Whatever a command does often, srt survives it with little memory, refuses
// what it refuses, and ends when the command does.
func TestFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	echo := echoServer(t)
	s := newSandboxed(t, os.Getuid(), `{"network":{"allowedDomains":["127.0.0.1"],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`)
	for _, f := range []struct {
		kind  string
		count int
		open  int // files of one process for each
	}{
		{"tunnels", 500, 2}, // linux 122
		{"threads", 500, 1}, // network 142
		{"standing", 5000, 2},
		{"silence", 2000, 1},
		{"refusals", 20_000, 0},
		{"hosts", 2000, 0},
		{"files", 200, 0},
	} {
		if raceEnabled {
			f.count /= 20
		}
		t.Run(f.kind, func(t *testing.T) {
			testutil.NeedFiles(t, f.open*f.count+200)
			cmd := s.command("--violations", "json", s.program("flood"), f.kind, strconv.Itoa(f.count))
			cmd.Env = append(cmd.Env, "ECHO="+echo)
			out := s.bounded(cmd)
			if strings.TrimSpace(out) != strconv.Itoa(f.count) {
				t.Errorf("%d expected: %s", f.count, out)
			}
		})
	}
	if left := s.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// echoServer listens on the host's loopback.
func echoServer(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

// maxResident is how much memory srt may take, in KiB.
const maxResident = 100 << 10

// watchResident returns a function that ends the watch and tells the largest
// resident set of a process, in KiB. What the kernel tells of a process that ended
// would be that of this test, from which it was forked.
func (s *sandboxed) watchResident(pid int) (largest func() int) {
	most, stop, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe == s.binary {
				most = max(most, highWater(pid))
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int { close(stop); <-done; return most }
}

func highWater(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var n int
	_, _ = fmt.Sscan(after, &n)
	return n
}

// bounded runs srt within some minutes and looks at its memory.
func (s *sandboxed) bounded(cmd *exec.Cmd) string {
	s.t.Helper()
	var out strings.Builder
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Cancel, cmd.WaitDelay = nil, 0
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	stop := time.AfterFunc(5*testutil.Patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	resident := s.watchResident(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		s.t.Errorf("%v: %.2000s", err, said.String())
	}
	if most := resident(); !raceEnabled && (most == 0 || most > maxResident) {
		s.t.Errorf("%d KiB resident", most)
	}
	return out.String()
}

// Long argument lists and directories with very many names are no trouble.
func TestLargeInput(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a hundred thousand files")
	}
	s := newSandboxed(t, os.Getuid(), `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":["**/*.key"],"allowWrite":["."],"denyWrite":["d/*.cfg"]}}`)
	argument := strings.Repeat("x", 120_000)
	out := s.bounded(s.command("bash", "-c", `echo $# ${#1} ${#10}`, "name", argument, argument, argument, argument, argument, argument, argument, argument, argument, argument))
	if out != "10 120000 120000\n" {
		t.Errorf("arguments: %q", out)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 {
		name := fmt.Sprintf("d/%d", i)
		if i%20_000 == 0 {
			name += ".key"
		}
		f, err := os.Create(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	out = s.bounded(s.command("-c", "cat d/*.key 2>&1 | grep -c 'Permission denied'; ls d | wc -l"))
	if out != "5\n100000\n" {
		t.Errorf("a full directory: %q", out)
	}
}

// Two hundred processes at once get their own answers from srt-init, whoever dies
// meanwhile, and neither another sandbox nor the host waits for them.
func TestStorm(t *testing.T) {
	count := 200
	if raceEnabled {
		count = 40
	}
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s, other := newSandboxed(t, uid, workSettings), newSandboxed(t, uid, workSettings)
			over, slowest := make(chan struct{}), make(chan time.Duration)
			go func() {
				var worst time.Duration
				for running := true; running; {
					select {
					case <-over:
						running = false
					default:
					}
					start := time.Now()
					if out, err := other.command("-c", "for k in 1 2 3; do echo x > f && rm f || exit 1; done").CombinedOutput(); err != nil {
						t.Errorf("the other sandbox: %v %s", err, out)
					}
					worst = max(worst, time.Since(start))
				}
				slowest <- worst
			}()
			out := s.bounded(s.command("--violations", "json", s.program("flood"), "storm", strconv.Itoa(count)))
			close(over)
			if worst := <-slowest; worst > testutil.Patience {
				t.Errorf("the other sandbox needed %v", worst)
			} else {
				t.Logf("the other sandbox needed at most %v", worst)
			}
			if strings.TrimSpace(out) != strconv.Itoa(count) {
				t.Errorf("%d expected: %s", count, out)
			}
		})
	}
}
