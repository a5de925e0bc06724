package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// serve is the script command "serve [PORT]": it answers everybody who connects
// to that port of 127.0.0.1 with one line.
func serve() {
	port := "8099"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, "served")
		conn.Close()
	}
}

// flood is the script command "flood KIND COUNT": it does one thing very often.
func flood() {
	count, _ := strconv.Atoi(os.Args[2])
	done := map[string]func(int) int{"tunnels": tunnels, "threads": threads, "standing": standing, "silence": silence, "refusals": refusals, "files": files, "hosts": hosts, "storm": storm}[os.Args[1]](count)
	fmt.Println(done)
}

// tunnels opens connections through the proxy at the same time and counts those
// through which a line came back.
func tunnels(count int) int {
	var good atomic.Int32
	var wait sync.WaitGroup
	for i := range count {
		wait.Go(func() {
			conn, err := net.Dial("tcp", "127.0.0.1:3128")
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", os.Getenv("ECHO"))
			r := bufio.NewReader(conn)
			status, _ := r.ReadString('\n')
			for line := status; line != "\r\n" && line != ""; line, _ = r.ReadString('\n') {
			}
			fmt.Fprintln(conn, i)
			if answer, _ := r.ReadString('\n'); strings.Contains(status, " 200 ") && answer == fmt.Sprintln(i) {
				good.Add(1)
			}
		})
	}
	wait.Wait()
	return int(good.Load())
}

// standing opens tunnels that all stand at the same time, and then counts those
// through which a line comes back.
func standing(count int) int {
	var good atomic.Int32
	var opening, answered sync.WaitGroup
	turns := make(chan struct{}, 100)
	opening.Add(count)
	for i := range count {
		answered.Go(func() {
			turns <- struct{}{}
			conn, err := net.Dial("tcp", "127.0.0.1:3128")
			status := ""
			if err == nil {
				defer conn.Close()
				fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", os.Getenv("ECHO"))
				head := make([]byte, len("HTTP/1.1 200 Connection Established\r\n\r\n"))
				_, _ = io.ReadFull(conn, head)
				status = string(head)
			}
			<-turns
			opening.Done()
			opening.Wait()
			if !strings.Contains(status, " 200 ") {
				return
			}
			fmt.Fprintln(conn, i)
			if answer, _ := bufio.NewReaderSize(conn, 16).ReadString('\n'); answer == fmt.Sprintln(i) {
				good.Add(1)
			}
		})
	}
	answered.Wait()
	return int(good.Load())
}

// threads connects from as many threads at once, each of which waits in connect(2).
func threads(count int) int {
	var good atomic.Int32
	var ready, wait sync.WaitGroup
	ready.Add(count)
	for range count {
		wait.Go(func() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			ready.Done()
			ready.Wait()
			if err == nil && unix.Connect(fd, &unix.SockaddrInet4{Port: 3128, Addr: [4]byte{127, 0, 0, 1}}) == nil {
				good.Add(1)
			}
		})
	}
	wait.Wait()
	return int(good.Load())
}

// silence opens connections to the proxies and says nothing on them.
func silence(count int) int {
	good := 0
	for i := range count {
		if _, err := net.Dial("tcp", []string{"127.0.0.1:3128", "127.0.0.1:1080"}[i%2]); err == nil {
			good++
		}
	}
	return good
}

// refusals tries what the guard refuses and reports.
func refusals(count int) int {
	refused := 0
	for range count {
		if os.Mkdir(".bashrc", 0o700) != nil {
			refused++
		}
	}
	return refused
}

// hosts asks for hosts that are not allowed.
func hosts(count int) int {
	refused := 0
	for i := range count {
		conn, err := net.Dial("tcp", "127.0.0.1:3128")
		if err != nil {
			continue
		}
		fmt.Fprintf(conn, "CONNECT h%d.invalid:443 HTTP/1.1\r\nHost: x\r\n\r\n", i)
		if status, _ := bufio.NewReader(conn).ReadString('\n'); strings.Contains(status, "403") {
			refused++
		}
		conn.Close()
	}
	return refused
}

// files has processes make and remove files at the same time, a call for the
// guard each.
func files(count int) int {
	good := make(chan bool)
	for i := range count {
		go func() {
			good <- exec.Command("bash", "-c", fmt.Sprintf("for k in {1..10}; do echo x > f%[1]d.$k && mv f%[1]d.$k g%[1]d.$k && rm g%[1]d.$k || exit 1; done", i)).Run() == nil
		}()
	}
	sum := 0
	for range count {
		if <-good {
			sum++
		}
	}
	return sum
}

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

// storm starts processes that make calls for srt-init, start others and check
// that each answer is theirs; every other one is killed in the middle. It counts
// those that ended as they should.
func storm(count int) int {
	const worker = `for k in {1..5}; do
		exec 3>w$0.$k && test "$(readlink /proc/$$/fd/3)" = "$PWD/w$0.$k" && echo $0 >&3 && exec 3>&- && mkdir d$0.$k && mv w$0.$k d$0.$k/x &&
			test "$(cat d$0.$k/x)" = $0 && rm d$0.$k/x && rmdir d$0.$k || exit 7
	done`
	good := make(chan bool)
	for i := range count {
		go func() {
			cmd := exec.Command("bash", "-c", worker, strconv.Itoa(i))
			if cmd.Start() != nil {
				good <- false
				return
			}
			if i%2 == 1 {
				time.Sleep(time.Duration(i%40) * 5 * time.Millisecond)
				_ = cmd.Process.Kill()
			}
			err := cmd.Wait()
			good <- err == nil || i%2 == 1 && strings.Contains(err.Error(), "killed")
		}()
	}
	sum := 0
	for range count {
		if <-good {
			sum++
		}
	}
	return sum
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
