package srt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// cli 62: what a sandbox needs and does not find is one error that names it, and
// leaves nothing behind.
func TestMissingDependency(t *testing.T) {
	temp, dir := workDir(t), workDir(t)
	t.Setenv("TMPDIR", temp)
	sb := newSandbox(t, func(c *config.Config) {
		c.Linux = &config.Linux{Backend: "bubblewrap"}
		c.BwrapPath = "/nonexistent/bwrap"
	})
	cmd := sb.Command(t.Context(), "touch", "ran")
	cmd.Dir = dir
	var start *StartError
	if err := cmd.Run(); !errors.As(err, &start) || !strings.Contains(err.Error(), "bwrapPath /nonexistent/bwrap") {
		t.Errorf("%v", err)
	}
	for _, d := range []string{temp, dir} {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("%v %v", left, err)
		}
	}
}

// A command that no sandbox made runs nowhere.
func TestCommandWithoutSandbox(t *testing.T) {
	cmd := &Cmd{Path: "touch", Args: []string{"touch", filepath.Join(workDir(t), "ran")}}
	if err := cmd.Run(); !errors.Is(err, ErrNotSandboxed) {
		t.Errorf("%v", err)
	}
	if _, err := cmd.Argv(); !errors.Is(err, ErrNotSandboxed) {
		t.Errorf("%v", err)
	}
	if v := cmd.Violations(); v != nil {
		t.Errorf("%v", v)
	}
}

// cli 63: a context that ended makes no sandbox.
func TestNewCancelled(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if sb, err := New(ctx, config.Default()); sb != nil || !errors.Is(err, why) {
		t.Errorf("%v %v", sb, err)
	}
}

// cli 75, 82: the violations of commands with the same text stay apart, also when the
// text is long, and can be read after Close.
func TestViolationsOfLikeCommands(t *testing.T) {
	sb := newSandbox(t, nil)
	script := ": " + strings.Repeat("the same text ", 20) + "; mkdir .vscode; true"
	var wait sync.WaitGroup
	cmds := make([]*Cmd, 4)
	for i := range cmds {
		cmds[i] = sb.Shell(t.Context(), script)
		cmds[i].Dir = workDir(t)
		wait.Go(func() {
			if err := cmds[i].Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range cmds {
		if v := cmd.Violations(); len(v) != 1 || v[0].Target != cmd.Dir+"/.vscode" || v[0].Command != script {
			t.Errorf("%s: %+v", cmd.Dir, v)
		}
	}
	if n := len(sb.Violations()); n != len(cmds) {
		t.Errorf("%d held", n)
	}
}
