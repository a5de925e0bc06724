package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// Sockets of the host that lie in the file system cannot be reached: neither
// those that listen nor those that take datagrams from anybody.
func TestHostSockets(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			datagram, stream := filepath.Join(s.home, "datagram"), filepath.Join(s.home, "stream")
			packets, err := net.ListenPacket("unixgram", datagram)
			if err != nil {
				t.Fatal(err)
			}
			defer packets.Close()
			listener, err := net.Listen("unix", stream)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			for _, name := range []string{datagram, stream} {
				if err := os.Chmod(name, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			where := []string{"ATTACK_SOCKET=" + datagram, "ATTACK_STREAM=" + stream}
			expect(t, s.attack(where, nil, "aimed: datagram", "aimed: connection"), 3, 0)
			// What was sent is there by now. A deadline that is over already would end
			// the read without a look.
			_ = packets.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if n, _, err := packets.ReadFrom(make([]byte, 10)); err == nil {
				t.Errorf("%d bytes arrived at the host's socket", n)
			}
			_ = packets.SetReadDeadline(time.Time{})
			expect(t, s.unconfined(where, nil, "aimed: datagram", "aimed: connection"), 0, 3)
			// Once connected, an end stays so: the kernel's own rule.
			expect(t, s.attack(where, nil, "aimed: connected"), 1, 0)
			expect(t, s.unconfined(where, nil, "aimed: connected"), 1, 0)
		})
	}
}

// A socket on standard input, as programs that start others use it, leads to
// nothing but its other end: the process there cannot be signalled through it.
func TestInheritedSocket(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			host, input := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "input")
			defer host.Close()
			defer input.Close()
			if _, err := unix.GetsockoptInt(fds[1], unix.SOL_SOCKET, 77); err != nil {
				t.Skip("this kernel has no SO_PEERPIDFD:", err)
			}
			expect(t, s.attack(nil, input, "inherited:"), 1, 0)
			if uid == os.Getuid() {
				expect(t, s.unconfined(nil, input, "inherited:"), 0, 1)
			}
		})
	}
}

// A directory on a standard stream would open the host's tree, a file opened for
// reading could be opened once more for writing.
func TestInheritedFiles(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			for fd := range 3 {
				out, err := s.withStream(fd, s.home, os.O_RDONLY, "-c", "true")
				if err == nil || fd != 2 && !strings.Contains(out, "is the directory") {
					t.Errorf("descriptor %d: %v, %s", fd, err, out)
				}
			}
			victim := filepath.Join(s.home, "victim")
			s.file(victim, "1\n2\n3\n")
			const change = "exec 2>/dev/null; echo evil > /proc/self/fd/%[1]d; echo evil >> /dev/fd/%[1]d; chmod 600 /proc/self/fd/%[1]d; touch -d @1 /proc/self/fd/%[1]d; true"
			for fd := range 2 {
				before := s.describe(victim)
				if out, err := s.withStream(fd, victim, os.O_RDONLY, "-c", fmt.Sprintf(change, fd)); err != nil {
					t.Errorf("descriptor %d: %v: %s", fd, err, out)
				}
				if after := s.describe(victim); after != before {
					t.Errorf("descriptor %d: the file was changed: %s, then %s", fd, before, after)
				}
			}
		})
	}
}

// What a command reads from a file on standard input is read for its caller,
// too, as if there were no sandbox between them.
func TestInputPosition(t *testing.T) {
	s := newSandboxed(t, os.Getuid(), workSettings)
	name := filepath.Join(s.home, "numbers")
	s.file(name, "1\n2\n3\n4\n")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for want := range 4 {
		cmd := s.command("-c", "read n; echo $n")
		cmd.Stdin = f
		out, err := cmd.CombinedOutput()
		if string(out) != fmt.Sprintln(want+1) {
			t.Errorf("line %d: %q, %v", want+1, out, err)
		}
	}
	// What has no name any more cannot be opened again and is passed on as it is.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(2, 0); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("cat")
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); string(out) != "2\n3\n4\n" {
		t.Errorf("a removed file: %q, %v", out, err)
	}
}

// A file that the command may not read is not read for it by the caller's shell
// either, unless through a pipe.
func TestInputThatIsDenied(t *testing.T) {
	s := newSandboxed(t, os.Getuid(), `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":["~/secret"],"allowWrite":["."],"denyWrite":[]}}`)
	s.file(filepath.Join(s.home, "secret"), "secret\n")
	out, err := s.withStream(0, filepath.Join(s.home, "secret"), os.O_RDONLY, "cat")
	if err == nil || !strings.Contains(out, "through a pipe") {
		t.Errorf("%v: %s", err, out)
	}
	f, err := os.Open(filepath.Join(s.home, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := s.command("cat")
	cmd.Stdin = struct{ *os.File }{f} // goes through a pipe
	if out, err := cmd.CombinedOutput(); string(out) != "secret\n" {
		t.Errorf("through a pipe: %q, %v", out, err)
	}
}

// attack runs the attack program in a sandbox.
func (s *sandboxed) attack(env []string, stdin *os.File, names ...string) string {
	s.t.Helper()
	// The test binary is the attack program when it is called by that name.
	return s.output(s.command(append([]string{s.program("attack")}, names...)...), env, stdin)
}

// unconfined runs the attack program without one.
func (s *sandboxed) unconfined(env []string, stdin *os.File, names ...string) string {
	s.t.Helper()
	cmd := s.command()
	cmd.Path, cmd.Args = s.program("unconfined"), append([]string{"unconfined"}, names...)
	return s.output(cmd, env, stdin)
}

func (s *sandboxed) output(cmd *exec.Cmd, env []string, stdin *os.File) string {
	s.t.Helper()
	cmd.Env = append(cmd.Env, append(env, "PATH="+filepath.Dir(s.binary)+":/usr/bin:/bin")...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", cmd.Args, err, out)
	}
	return string(out)
}

// program gives the test binary one more name.
func (s *sandboxed) program(name string) string {
	s.t.Helper()
	path := filepath.Join(filepath.Dir(s.binary), name)
	for _, n := range []string{name, "attack"} {
		err := os.Link(s.binary, filepath.Join(filepath.Dir(s.binary), n))
		if err != nil && !os.IsExist(err) {
			s.t.Fatal(err)
		}
	}
	return path
}

// file makes a file of the sandbox's user.
func (s *sandboxed) file(name, text string) {
	s.t.Helper()
	err := os.WriteFile(name, []byte(text), 0o644)
	if err == nil && os.Getuid() == 0 {
		err = os.Chown(name, s.uid, s.uid)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandboxed) describe(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	fi, err := os.Stat(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%q %v %v", data, fi.Mode(), fi.ModTime())
}

// withStream runs srt with one standard stream replaced.
func (s *sandboxed) withStream(fd int, path string, flags int, args ...string) (string, error) {
	s.t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	var said bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	switch fd {
	case 0:
		cmd.Stdin = f
	case 1:
		cmd.Stdout = f
	case 2:
		cmd.Stderr = f
	}
	err = cmd.Run()
	return said.String(), err
}

func expect(t *testing.T, out string, refused, succeeded int) {
	t.Helper()
	if strings.Count(out, ": refused") != refused || strings.Count(out, ": SUCCEEDED") != succeeded {
		t.Errorf("wanted %d refused and %d succeeded:\n%s", refused, succeeded, out)
	}
}

// A socket on a standard stream that could be connected to something else is in
// the host's network, and would be a way past the filter.
func TestInheritedSocketKinds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connected, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	tcp, err := connected.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := aimAgain(int(tcp.Fd()), listener.Addr().(*net.TCPAddr).Port); err != nil {
		t.Errorf("a TCP connection cannot be aimed again, so this test shows nothing: %v", err)
	}
	newSocket := func(family, kind int) *os.File {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) && family == unix.AF_INET6 {
			fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "socket")
	}
	half := func(kind int) *os.File {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		other := os.NewFile(uintptr(fds[1]), "other")
		t.Cleanup(func() { other.Close() })
		return os.NewFile(uintptr(fds[0]), "half")
	}
	s := newSandboxed(t, os.Getuid(), workSettings)
	for _, c := range []struct {
		name   string
		socket *os.File
		good   bool
	}{
		{"connected TCP", tcp, false},
		{"UDP", newSocket(unix.AF_INET, unix.SOCK_DGRAM), false},
		{"new TCP", newSocket(unix.AF_INET6, unix.SOCK_STREAM), false},
		{"netlink", newSocket(unix.AF_NETLINK, unix.SOCK_RAW), false},
		{"new Unix stream", newSocket(unix.AF_UNIX, unix.SOCK_STREAM), false},
		{"Unix datagram pair", half(unix.SOCK_DGRAM), false},
		{"Unix stream pair", half(unix.SOCK_STREAM), true},
		{"Unix packet pair", half(unix.SOCK_SEQPACKET), true},
	} {
		cmd := s.command("true")
		cmd.Stdin = c.socket
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.good || !c.good && !strings.Contains(string(out), "pass it through a pipe") {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
		c.socket.Close()
	}
}

// aimAgain takes a TCP connection apart and connects its socket once more.
func aimAgain(fd, port int) error {
	unspecified := [16]byte{} // family AF_UNSPEC
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified)))
	if e != 0 {
		return e
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

// srt-init gets nothing of the caller's environment, which could steer the Go
// runtime or the dynamic loader; the command gets it.
func TestInitEnvironment(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may look at srt-init's environment")
	}
	s := newSandboxed(t, 0, workSettings)
	cmd := s.command("-c", `touch up; until test -e seen; do sleep 0.02; done; echo "$GODEBUG $GOTRACEBACK $BASH_ENV $LD_AUDIT"; ls`)
	cmd.Env = append(cmd.Env, "GODEBUG=madvdontneed=1", "GOTRACEBACK=crash", "BASH_ENV="+s.dir+"/evil", "LD_AUDIT=/nonexistent.so")
	var out bytes.Buffer
	cmd.Stdout = &out
	s.file(filepath.Join(s.dir, "evil"), "echo sourced inside")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(s.dir, "up")); return err == nil })
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, list := range children {
		pids, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(pids)) {
			env, err := os.ReadFile("/proc/" + pid + "/environ")
			// Race builds pass the detector's options on, and nothing else.
			if own := strings.ReplaceAll(string(env), "GORACE="+os.Getenv("GORACE")+"\x00", ""); err != nil || own != "GOMAXPROCS=2\x00GOGC=400\x00SRT_IDENTITY=0 0\x00" || !raceEnabled && own != string(env) {
				t.Errorf("environment of process %s: %q, %v", pid, env, err)
			}
			found++
		}
	}
	s.file(filepath.Join(s.dir, "seen"), "")
	if err := cmd.Wait(); err != nil || found != 1 {
		t.Errorf("%v, %d processes", err, found)
	}
	if !strings.Contains(out.String(), "madvdontneed=1 crash "+s.dir+"/evil /nonexistent.so") {
		t.Errorf("the command saw %q", out.String())
	}
}

// waitFor waits for what a command does.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	testutil.Eventually(t, "the command", condition)
}
