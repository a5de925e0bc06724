package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// screen is the far end of a pseudo-terminal, where a person would sit: it types
// and reads what appears.
type screen struct {
	*testing.T
	master *os.File
	device string

	session int // number of the session that has the terminal

	mu    sync.Mutex
	shown []byte
	seen  int // what expect has passed
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	// Non-blocking, so that closing it ends a pending read.
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("making a pseudo-terminal: %v", err)
	}
	s := &screen{T: t, master: master}
	t.Cleanup(s.hangUp)
	number := 0
	s.control(func(fd int) (err error) { number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); return err })
	s.control(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	s.device = fmt.Sprint("/dev/pts/", number)
	s.resize(24, 80)
	go s.read()
	return s
}

// control does something with the descriptor of the far end.
func (s *screen) control(do func(fd int) error) {
	s.Helper()
	raw, err := s.master.SyscallConn()
	if err == nil {
		if e := raw.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil {
			err = e
		}
	}
	if err != nil {
		s.Fatalf("controlling the pseudo-terminal: %v", err)
	}
}

func (s *screen) resize(rows, columns uint16) {
	s.Helper()
	s.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}

func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.shown = append(s.shown, buf[:n]...)
		s.mu.Unlock()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // nobody has the terminal open now
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// hangUp takes the far end away.
func (s *screen) hangUp() { s.master.Close() }

// start starts a program as the leader of a session on this terminal.
func (s *screen) start(cmd *exec.Cmd) *exec.Cmd {
	s.Helper()
	slave, err := os.OpenFile(s.device, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer slave.Close()
	if cmd.Stdin == nil {
		cmd.Stdin = slave
	}
	if cmd.Stdout == nil {
		cmd.Stdout = slave
	}
	if cmd.Stderr == nil {
		cmd.Stderr = slave
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if c := cmd.SysProcAttr.Credential; c != nil {
		// As a login does.
		if err := slave.Chown(int(c.Uid), int(c.Gid)); err != nil {
			s.Fatal(err)
		}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Setctty = true
	for fd, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if stream == any(slave) {
			cmd.SysProcAttr.Ctty = fd
		}
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.session = cmd.Process.Pid
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// text is everything that appeared.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

func (s *screen) press(keys string) {
	s.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.Fatalf("typing %q: %v", keys, err)
	}
}

// expect waits until a text appears after the last expected one. Keys are
// echoed, so the text should differ from what was typed. Of several texts it is the
// first that appears.
func (s *screen) expect(texts ...string) (found string) {
	s.Helper()
	s.wait(fmt.Sprintf("the text %q", texts), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		first := -1
		for _, text := range texts {
			if at := bytes.Index(s.shown[s.seen:], []byte(text)); at >= 0 && (first < 0 || at < first) {
				first, found = at, text
			}
		}
		if first >= 0 {
			s.seen += first + len(found)
		}
		return first >= 0
	})
	return found
}

// wait waits for a condition.
func (s *screen) wait(what string, holds func() bool) {
	s.Helper()
	if !testutil.Within(testutil.Patience, holds) {
		s.Fatalf("waited for %s; the screen:\n%s\nprocesses:\n%s", what, s.text(), s.processes())
	}
}

// foreground is the process group that has the terminal.
func (s *screen) foreground() int {
	return s.number(unix.TIOCGPGRP)
}

// number asks the terminal for a number, -1 if there is no answer.
func (s *screen) number(request uint) int {
	n := -1
	if s.master == nil {
		return n
	}
	if raw, err := s.master.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if v, err := unix.IoctlGetInt(int(fd), request); err == nil {
				n = v
			}
		})
	}
	return n
}

// ends waits for a program's end and checks its status, 128+N for a signal.
func (s *screen) ends(cmd *exec.Cmd, want int) {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	s.wait("the end of "+cmd.Path, func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status = exit.ExitCode(); status < 0 {
			status = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	} else if err != nil {
		s.Fatal(err)
	}
	if status != want {
		s.Errorf("status %d, want %d; the screen:\n%s", status, want, s.text())
	}
}

// stat is what /proc says of a process of this terminal.
type stat struct {
	pid, group int
	state      string
	line       string
}

// jobs lists the processes of the session whose command line has the text. A
// sandbox that runs without the terminal is in no session of ours.
func (s *screen) jobs(text string) []stat {
	var all []stat
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range names {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(bytes.ReplaceAll(line, []byte{0}, []byte{' '}), []byte(text)) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "stat"))
		end := bytes.LastIndexByte(data, ')')
		if err != nil || end < 0 {
			continue
		}
		f := strings.Fields(string(data[end+1:]))
		if s.session > 0 && f[3] != strconv.Itoa(s.session) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		group, _ := strconv.Atoi(f[2])
		if f[0] == "T" && !threadsStopped(pid) {
			f[0] = "S" // its parent is told when the last thread stops
		}
		all = append(all, stat{pid: pid, group: group, state: f[0], line: strings.ReplaceAll(string(line), "\x00", " ")})
	}
	return all
}

func threadsStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && !bytes.Contains(data, []byte(") T "))
	})
}

// processes describes the sandboxes of this test, for failures.
func (s *screen) processes() string {
	text := fmt.Sprintf("foreground group %d\n", s.foreground())
	for _, p := range s.jobs("") {
		text += fmt.Sprintf("%d group %d %s %.80q%s\n", p.pid, p.group, p.state, p.line, signalsOf(p.pid))
	}
	return text
}

// signalsOf tells the parent of a process, what it waits in and its signals.
func signalsOf(pid int) (text string) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "Pnd") || name == "SigBlk" || name == "SigIgn" || name == "PPid" {
			text += " " + name + " " + strings.TrimSpace(value)
		}
	}
	place, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	return text + " in " + string(place)
}

// stopped waits until a process with the text in its command line is stopped.
func (s *screen) stopped(text string) {
	s.Helper()
	s.wait("the stop of "+text, func() bool {
		for _, p := range s.jobs(text) {
			if p.state == "T" {
				return true
			}
		}
		return false
	})
}

// running waits until a process with the text runs, and returns it.
func (s *screen) running(text string) stat {
	s.Helper()
	var found stat
	s.wait(text+" running", func() bool {
		for _, p := range s.jobs(text) {
			if p.state != "T" && p.state != "Z" {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// nothing waits until no process has the text in its command line.
func (s *screen) nothing(text string) {
	s.Helper()
	s.wait("no process with "+text, func() bool { return len(s.jobs(text)) == 0 })
}

// onTerminal runs a test with a sandbox on a terminal, for each user.
func onTerminal(t *testing.T, test func(s *screen, box *sandboxed)) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			t.Parallel()
			test(newScreen(t), newSandboxed(t, uid, workSettings))
		})
	}
}

// onTerminalWith is onTerminal with a backend, also for an srt without options.
func onTerminalWith(t *testing.T, backend string, test func(s *screen, box *sandboxed)) {
	needBackend(t, backend)
	onTerminal(t, func(s *screen, box *sandboxed) {
		settings := []byte(withLinux(workSettings, backend, ""))
		for _, name := range []string{box.settings, filepath.Join(box.home, ".srt-settings.json")} {
			if err := os.WriteFile(name, settings, 0o644); err != nil {
				s.Fatal(err)
			}
		}
		test(s, box)
	})
}

// shell starts an interactive shell whose prompt is "ready>" and that knows
// srt by name.
func (s *screen) shell(box *sandboxed) *exec.Cmd {
	s.Helper()
	return s.shellWith(box, "bash", "--norc", "--noprofile", "-i")
}

func (s *screen) shellWith(box *sandboxed, args ...string) *exec.Cmd {
	s.Helper()
	cmd := box.command()
	var err error
	if cmd.Path, err = exec.LookPath(args[0]); err != nil {
		s.Skipf("needs %s: %v", args[0], err)
	}
	cmd.Args = args
	cmd.Env = append(cmd.Env, "PS1=ready> ", "TERM=xterm", "HISTFILE=", "SHELL=/bin/bash")
	for i, v := range cmd.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			cmd.Env[i] = "PATH=" + filepath.Dir(box.binary) + ":" + path
		}
	}
	s.start(cmd)
	s.expect("ready> ")
	return cmd
}

// enter types a line.
func (s *screen) enter(line string) {
	s.Helper()
	s.press(line + "\r")
}

// alive checks that the shell has its prompt and the terminal.
func (s *screen) alive() {
	s.Helper()
	s.enter("echo alive$((40+2))")
	s.expect("alive42")
	s.expect("ready> ")
}

var marks atomic.Int64

// mark is a command that runs for long and that no other test runs, be it one of
// another process.
func mark() string { return "sleep 31337." + markNumber() }

func markNumber() string { return fmt.Sprintf("%d%03d", os.Getpid(), marks.Add(1)) }
