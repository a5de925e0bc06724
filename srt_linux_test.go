package srt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

func TestMain(m *testing.M) {
	MaybeExecHelper()
	if act, ok := commands[os.Getenv("SRT_TEST_COMMAND")]; ok {
		os.Exit(act(os.Args[1:]))
	}
	testutil.RunWithoutLeaks(m)
}

func newSandbox(t *testing.T, change func(*config.Config), opts ...Option) *Sandbox {
	t.Helper()
	cfg := config.Default()
	cfg.Filesystem.AllowWrite = []config.PathEntry{{Path: "."}}
	if change != nil {
		change(cfg)
	}
	sb, err := New(t.Context(), cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
	})
	return sb
}

func workDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCommand(t *testing.T) {
	sb := newSandbox(t, nil)
	dir := workDir(t)
	cmd := sb.Shell(t.Context(), `cat; echo "$0 $X"; echo e >&2; touch made /srt-test-outside; pwd`, "zero")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "X=y"}
	cmd.Stdin = strings.NewReader("in ")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if want := "in zero y\n" + dir + "\n"; string(out) != want {
		t.Errorf("output %q, want %q", out, want)
	}
	if !strings.HasPrefix(errs.String(), "e\n") || !strings.Contains(errs.String(), "Read-only file system") {
		t.Errorf("errors %q", errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
}

func TestEndsOfCommands(t *testing.T) {
	sb := newSandbox(t, nil)
	var exit *ExitError
	if err := sb.Shell(t.Context(), "exit 7").Run(); !errors.As(err, &exit) || exit.Code != 7 || exit.ShellCode() != 7 {
		t.Errorf("%v", err)
	}
	if err := sb.Shell(t.Context(), "kill -9 $$").Run(); !errors.As(err, &exit) || exit.Signal != 9 || exit.ShellCode() != 137 {
		t.Errorf("%v", err)
	}
	var missing *CommandError
	if err := sb.Command(t.Context(), "no-such-program").Run(); !errors.As(err, &missing) || missing.Status != 127 || !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	cmd := sb.Command(t.Context(), "true")
	if err := cmd.Wait(); !errors.Is(err, ErrNotStarted) {
		t.Errorf("%v", err)
	}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if err := cmd.Start(); !errors.Is(err, ErrAlreadyStarted) {
		t.Errorf("%v", err)
	}
}

// cli 61: nothing runs without a session.
func TestClosed(t *testing.T) {
	sb := newSandbox(t, nil)
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sb.Command(t.Context(), "true").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := sb.Update(config.Default()); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestCloseKillsCommands(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "sleep", "31337")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	var exit *ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%v", err)
	}
}

func TestContext(t *testing.T) {
	sb := newSandbox(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	start := func(cmd *Cmd) {
		t.Helper()
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
	}
	stubbornly, cancelStubborn := context.WithCancel(t.Context())
	stubborn := sb.Shell(stubbornly, `trap '' TERM; echo ready; sleep 31337`)
	stubborn.WaitDelay = 100 * time.Millisecond
	start(stubborn)
	cancelStubborn()
	var exit *ExitError
	if err := stubborn.Wait(); !errors.As(err, &exit) || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%v", err)
	}
	if err := sb.Command(stubbornly, "true").Run(); err == nil {
		t.Error("a command ran under a context that had ended")
	}

	cmd := sb.Shell(ctx, `trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	start(cmd)
	cancel()
	rest := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		rest <- string(text)
	}()
	err := cmd.Wait()
	w.Close()
	if !errors.As(err, &exit) || exit.Code != 3 || <-rest != "asked\n" {
		t.Errorf("%v", err)
	}
}

// cli 65, 66, network 53, 55: lists of one command, and live updates. A list is
// that of one command, not of its text, and ends with it.
func TestHosts(t *testing.T) {
	ln := testutil.Listen(t)
	testutil.Serve(t, ln, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nreached")
	})
	address := ln.Addr().String()
	get := func(sb *Sandbox, allow ...string) string {
		t.Helper()
		cmd := sb.Shell(t.Context(), fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://%s/ HTTP/1.0\r\n\r\n' >&3; cat <&3`, address))
		cmd.AllowDomains = allow
		out, err := cmd.Output()
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(out), "403") && len(cmd.Violations()) != 1 {
			t.Errorf("recorded: %+v", cmd.Violations())
		}
		return string(out)
	}
	sb := newSandbox(t, nil)
	if out := get(sb); !strings.Contains(out, "403 Forbidden") {
		t.Errorf("%q", out)
	}
	if out := get(sb, "127.0.0.1"); !strings.Contains(out, "reached") {
		t.Errorf("%q", out)
	}
	if out := get(sb); !strings.Contains(out, "403 Forbidden") {
		t.Errorf("the list of another command holds: %q", out)
	}
	bad := sb.Command(t.Context(), "true")
	bad.AllowDomains = []string{"*.com"}
	if err := bad.Start(); err == nil || !strings.Contains(err.Error(), "*.com") {
		t.Errorf("%v", err)
	}
	cfg := sb.Config()
	cfg.Network.AllowedDomains = []string{address}
	if err := sb.Update(cfg); err != nil {
		t.Fatal(err)
	}
	if out := get(sb); !strings.Contains(out, "reached") {
		t.Errorf("after the update: %q", out)
	}
	cfg.Network.DeniedResolvedAddresses = []string{"nonsense"} // cli 64, network 72
	if err := sb.Update(cfg); err == nil {
		t.Error("a malformed update was accepted")
	}
	if out := get(sb); !strings.Contains(out, "reached") {
		t.Errorf("after a refused update: %q", out)
	}
	asked := newSandbox(t, nil, WithAsk(func(_ context.Context, q AskRequest) (AskDecision, error) {
		return AskDecision{Allow: q.Host == "127.0.0.1"}, nil
	}))
	if out := get(asked); !strings.Contains(out, "reached") {
		t.Errorf("asked: %q", out)
	}
}

func TestManySandboxes(t *testing.T) {
	var wait sync.WaitGroup
	for i := range 8 {
		dir := workDir(t)
		sb := newSandbox(t, nil)
		wait.Go(func() {
			for j := range 5 {
				cmd := sb.Shell(t.Context(), fmt.Sprintf("echo %d-%d > f; cat f; touch .bashrc", i, j))
				cmd.Dir = dir
				out, _ := cmd.Output()
				if string(out) != fmt.Sprintf("%d-%d\n", i, j) {
					t.Errorf("%q", out)
				}
				if v := cmd.Violations(); len(v) != 1 || !strings.Contains(v[0].Line, dir) {
					t.Errorf("%+v", v)
				}
			}
		})
	}
	wait.Wait()
}

func TestUnsupportedSettings(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"network.tlsTerminate": func(c *config.Config) { c.Network.TLSTerminate = &config.TLSTerminate{} },
		"credentials.envVars": func(c *config.Config) {
			c.Credentials = &config.Credentials{AllowPlaintextInject: true, EnvVars: []config.CredentialEnv{{Name: "A", Mode: "mask"}}}
		},
	} {
		cfg := config.Default()
		change(cfg)
		_, err := New(t.Context(), cfg)
		var u *UnsupportedError
		if !errors.As(err, &u) || !strings.Contains(u.Setting, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := config.Default()
	cfg.Network.AllowedDomains = []string{"com"}
	var invalid *config.Error
	if _, err := New(t.Context(), cfg); !errors.As(err, &invalid) {
		t.Errorf("%v", err)
	}
}
