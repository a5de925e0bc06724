package srt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// spawn starts an argv as any program would, with more words behind it.
func spawn(t *testing.T, cmd *Cmd, more ...string) *exec.Cmd {
	t.Helper()
	argv, err := cmd.Argv()
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, more...)
	p := exec.Command(argv[0], argv[1:]...)
	p.Dir = workDir(t)
	return p
}

func TestArgv(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "bash")
	outside := filepath.Join(workDir(t), "f")
	p := spawn(t, cmd, "-c", `cat; echo "$0 $X $HOME"; echo e >&2; touch made "$OUTSIDE"; pwd; exit 5`, "zero")
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "X=y", "HOME=/elsewhere", "OUTSIDE=" + outside}
	p.Stdin = strings.NewReader("in ")
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	_ = p.Run()
	if got := p.ProcessState.ExitCode(); got != 5 {
		t.Errorf("status %d: %s", got, errs.String())
	}
	if want := "in zero y /elsewhere\n" + p.Dir + "\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	if !strings.HasPrefix(errs.String(), "e\n") || !strings.Contains(errs.String(), "Read-only file system") {
		t.Errorf("errors %q", errs.String())
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "made")); err != nil {
		t.Error(err)
	}
	var exit *ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Code != 5 {
		t.Fatalf("%v", err)
	}
	if len(exit.Violations) != 1 || exit.Violations[0].Target != outside || exit.Violations[0].CommandID != cmd.ID() {
		t.Errorf("violations %+v", exit.Violations)
	}
	if v := sb.Violations(); len(v) != 1 {
		t.Errorf("violations of the sandbox: %+v", v)
	}
}

// Dir, Env and the rest of a Cmd hold as they were when the argv was made.
func TestArgvFields(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "bash", "-c", `pwd; env | grep -a ^MINE; ulimit -n; echo "$@"`, "zero", "\xff")
	cmd.Dir, cmd.Env = filepath.Join(workDir(t), "d\xfe"), []string{"MINE=\xfd", "PATH=" + os.Getenv("PATH")}
	mustDo(t, os.Mkdir(cmd.Dir, 0o755))
	cmd.Limits = &config.Limits{OpenFiles: 77}
	p := spawn(t, cmd, "more words", "")
	dir := cmd.Dir
	cmd.Dir, cmd.Env[0], cmd.Args[2], cmd.Limits.OpenFiles = "/", "MINE=2", "exit 1", 88
	p.Env = []string{"MINE=3"}
	out, err := p.CombinedOutput()
	if want := dir + "\nMINE=\xfd\n77\n\xff more words \n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestArgvErrors(t *testing.T) {
	sb := newSandbox(t, nil)
	streams := sb.Command(t.Context(), "true")
	streams.Stdout = io.Discard
	if _, err := streams.Argv(); err == nil || !strings.Contains(err.Error(), "Stdout") {
		t.Errorf("%v", err)
	}
	hosts := sb.Command(t.Context(), "true")
	hosts.AllowDomains = []string{"*.com"}
	if _, err := hosts.Argv(); err == nil || !strings.Contains(err.Error(), "*.com") {
		t.Errorf("%v", err)
	}
	once := sb.Command(t.Context(), "true")
	first := spawn(t, once)
	if _, err := once.Argv(); !errors.Is(err, ErrAlreadyStarted) {
		t.Errorf("%v", err)
	}
	if err := once.Signal(syscall.SIGTERM); !errors.Is(err, ErrNotStarted) {
		t.Errorf("%v", err)
	}
	second := exec.Command(first.Path, first.Args[1:]...)
	if out, err := first.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, _ := second.CombinedOutput()
	if second.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "run before") {
		t.Errorf("the second run: %v, %s", second.ProcessState, out)
	}

	missing := sb.Command(t.Context(), "no-such-program")
	p := spawn(t, missing)
	out, _ = p.CombinedOutput()
	var command *CommandError
	if err := missing.Wait(); !errors.As(err, &command) || command.Status != 127 || p.ProcessState.ExitCode() != 127 || !strings.Contains(string(out), "no-such-program") {
		t.Errorf("%v, %v, %s", err, p.ProcessState, out)
	}
	gone := sb.Command(t.Context(), "true")
	gone.Dir = "/nonexistent/dir"
	p = spawn(t, gone)
	out, _ = p.CombinedOutput()
	if err := gone.Wait(); err == nil || !strings.Contains(err.Error(), "/nonexistent/dir") || p.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "/nonexistent/dir") {
		t.Errorf("%v, %v, %s", err, p.ProcessState, out)
	}

	closed := newSandbox(t, nil)
	late := closed.Command(t.Context(), "true")
	p = spawn(t, late)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := late.Wait(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	out, _ = p.CombinedOutput()
	if p.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "closed") {
		t.Errorf("after Close: %v, %s", p.ProcessState, out)
	}
	if _, err := closed.Command(t.Context(), "true").Argv(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A command that nobody has started yet ends with its context, and by Kill.
func TestArgvWithdrawn(t *testing.T) {
	sb := newSandbox(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled, killed := sb.Command(ctx, "true"), sb.Command(t.Context(), "true")
	p, q := spawn(t, cancelled), spawn(t, killed)
	cancel()
	if err := cancelled.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := killed.Kill(); err != nil {
		t.Error(err)
	}
	if err := killed.Wait(); !errors.Is(err, ErrWithdrawn) {
		t.Errorf("%v", err)
	}
	for _, p := range []*exec.Cmd{p, q} {
		if out, err := p.CombinedOutput(); err == nil {
			t.Errorf("it ran: %s", out)
		}
	}
}

// waiting starts an argv whose command says "ready" and then waits for its end.
func waiting(t *testing.T, cmd *Cmd) *exec.Cmd {
	t.Helper()
	p := spawn(t, cmd)
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return p
}

const waitForTerm = `trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done`

// Signals come from both sides, and the end of either side is the command's end.
func TestArgvEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*testing.T, *Sandbox, *Cmd, *exec.Cmd)
		status int // of the helper
		err    error
	}{
		"signal from the host": {func(t *testing.T, _ *Sandbox, cmd *Cmd, _ *exec.Cmd) { mustDo(t, cmd.Signal(syscall.SIGTERM)) }, 3, nil},
		"signal to the helper": {func(t *testing.T, _ *Sandbox, _ *Cmd, p *exec.Cmd) { mustDo(t, p.Process.Signal(syscall.SIGTERM)) }, 3, nil},
		"kill by the host":     {func(t *testing.T, _ *Sandbox, cmd *Cmd, _ *exec.Cmd) { mustDo(t, cmd.Kill()) }, 137, nil},
		"close":                {func(t *testing.T, sb *Sandbox, _ *Cmd, _ *exec.Cmd) { mustDo(t, sb.Close()) }, 137, nil},
		"kill of the helper":   {func(t *testing.T, _ *Sandbox, _ *Cmd, p *exec.Cmd) { mustDo(t, p.Process.Kill()) }, -1, ErrHelperLost},
		"close, helper stopped": {func(t *testing.T, sb *Sandbox, _ *Cmd, p *exec.Cmd) {
			mustDo(t, p.Process.Signal(syscall.SIGSTOP))
			mustDo(t, sb.Close())
		}, -1, ErrHelperLost},
	} {
		t.Run(name, func(t *testing.T) {
			sb := newSandbox(t, nil)
			cmd := sb.Shell(t.Context(), waitForTerm)
			p := waiting(t, cmd)
			c.end(t, sb, cmd, p)
			err := cmd.Wait()
			var exit *ExitError
			switch {
			case c.err != nil && !errors.Is(err, c.err), c.err == nil && (!errors.As(err, &exit) || exit.ShellCode() != c.status):
				t.Errorf("Wait: %v", err)
			}
			_ = p.Wait()
			if got := p.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
		})
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The context asks first, as for every command.
func TestArgvContext(t *testing.T) {
	sb := newSandbox(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := sb.Shell(ctx, waitForTerm)
	p := waiting(t, cmd)
	cancel()
	var exit *ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("%v", err)
	}
	_ = p.Wait()
}

// Nobody gets in without the token of a command, and who stays silent keeps
// nobody waiting.
func TestArgvStrangers(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "true")
	p := spawn(t, cmd)
	word := p.Args[2]
	place := word[:strings.LastIndexByte(word, '.')]
	for _, bad := range []string{"", "x", word + "x", place + ".", place + ".AAAAAAAAAAAAAAAAAAAAAAAAAA", "1" + word} {
		q := exec.Command(p.Path, runArgument, bad)
		if out, err := q.CombinedOutput(); err == nil || q.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), "Error: ") {
			t.Errorf("%q: %v, %s", bad, err, out)
		}
	}
	silent, err := net.Dial("unix", doorPrefix+strings.Split(word, ".")[1])
	mustDo(t, err)
	defer silent.Close()
	if out, err := p.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	mustDo(t, cmd.Wait())
	mustDo(t, sb.Close())
	_ = silent.SetReadDeadline(time.Now().Add(helloTimeout / 2)) // long before its time is over
	if _, err := silent.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("closing waits for who says nothing")
	}
}

// Ports of a command that another process runs.
func TestArgvPublished(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := runInside(t, sb, "serve", "0s", "127.0.0.1:8123")
	cmd.Stderr, cmd.Publish = nil, []config.Publish{{Inside: 8123}}
	p := spawn(t, cmd)
	mustDo(t, p.Start())
	var ports []Published
	testutil.Eventually(t, "a published port", func() bool { ports = cmd.Published(); return len(ports) > 0 })
	if ports[0].Inside != 8123 || ports[0].Addr.Port() == 0 {
		t.Errorf("%+v", ports)
	}
	conn, err := net.Dial("tcp", ports[0].Addr.String())
	mustDo(t, err)
	defer conn.Close()
	text := make([]byte, len("served at"))
	if _, err := io.ReadFull(conn, text); err != nil || string(text) != "served at" {
		t.Errorf("%q, %v", text, err)
	}
	mustDo(t, cmd.Kill())
	_ = cmd.Wait()
	_ = p.Wait()
}

// A host that is stopped does not keep a helper from ending by a signal.
func TestArgvSilentHost(t *testing.T) {
	ln, address, err := listenForHelpers()
	mustDo(t, err)
	defer ln.Close()
	exe, err := os.Executable()
	mustDo(t, err)
	p := exec.Command(exe, runArgument, address+".token")
	mustDo(t, p.Start())
	conn, err := ln.Accept()
	mustDo(t, err)
	defer conn.Close()
	mustDo(t, p.Process.Signal(syscall.SIGTERM))
	_ = p.Wait()
	if got := p.ProcessState.ExitCode(); got != 1 {
		t.Errorf("%v", p.ProcessState)
	}
}

func TestArgvBackends(t *testing.T) {
	check := func(sb *Sandbox) func(*testing.T) {
		return func(t *testing.T) {
			cmd := sb.Shell(t.Context(), `echo hello >made; touch "$OUTSIDE" && echo escaped; cat made; exit 4`)
			p := spawn(t, cmd)
			outside := filepath.Join(workDir(t), "f")
			p.Env = append(os.Environ(), "OUTSIDE="+outside)
			out, _ := p.Output()
			var exit *ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.Code != 4 || p.ProcessState.ExitCode() != 4 || string(out) != "hello\n" {
				t.Errorf("%v, %v, %q", err, p.ProcessState, out)
			}
			if len(cmd.Violations()) != 1 || cmd.Violations()[0].Target != outside {
				t.Errorf("%+v", cmd.Violations())
			}
		}
	}
	if _, err := exec.LookPath("bwrap"); err == nil {
		t.Run("bubblewrap", check(bubblewrapSandbox(t)))
	}
	if inside.LandlockABI() > 0 {
		t.Run("landlock", check(newSandbox(t, func(c *config.Config) { c.Linux = &config.Linux{Backend: config.BackendLandlock} })))
	}
}
