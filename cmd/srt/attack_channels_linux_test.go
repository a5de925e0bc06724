package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
			expect(t, s.attack(where, nil, "aimed: datagram", "aimed: connection"), 2, 0)
			expect(t, s.unconfined(where, nil, "aimed: datagram", "aimed: connection"), 0, 2)
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
