package srt

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
)

// The limits of one command replace those of the settings, one by one.
func TestLimitsOfCommand(t *testing.T) {
	sb := newSandbox(t, func(c *config.Config) { c.Limits = &config.Limits{OpenFiles: 40, FileSize: 64 << 10} })
	for want, limits := range map[string]*config.Limits{"40\n64\n": nil, "25\n64\n": {OpenFiles: 25}} {
		cmd := sb.Shell(t.Context(), "ulimit -n; ulimit -f")
		cmd.Dir, cmd.Limits = workDir(t), limits
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%q, %v; want %q", out, err, want)
		}
	}
	cmd := sb.Command(t.Context(), "true")
	cmd.Limits = &config.Limits{Memory: -1}
	if err := cmd.Run(); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "limits.memory") {
		t.Errorf("%v", err)
	}
}

func TestWallTime(t *testing.T) {
	sb := newSandbox(t, func(c *config.Config) {
		c.Limits = &config.Limits{WallTime: config.Duration(200 * time.Millisecond)}
	})
	cmd := sb.Shell(t.Context(), `trap 'echo asked; exit 5' TERM; while :; do sleep 0.05; done`)
	cmd.Dir = workDir(t)
	out, err := cmd.Output()
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 5 || string(out) != "asked\n" {
		t.Fatalf("%q, %v", out, err)
	}
	if len(exit.Violations) != 1 || exit.Violations[0].Line != "deny limit wallTime 200ms" || exit.Violations[0].Setting != "raise limits.wallTime above 200ms" {
		t.Errorf("%+v", exit.Violations)
	}
	stubborn := sb.Shell(t.Context(), `trap '' TERM; while :; do sleep 0.05; done`)
	stubborn.Dir, stubborn.WaitDelay = workDir(t), 100*time.Millisecond
	if err := stubborn.Run(); !errors.As(err, &exit) || exit.Signal != 9 || len(exit.Violations) != 1 {
		t.Errorf("%v", err)
	}
	quick := sb.Command(t.Context(), "true")
	quick.Dir, quick.Limits = workDir(t), &config.Limits{WallTime: config.Duration(time.Hour)}
	if err := quick.Run(); err != nil || len(quick.Violations()) != 0 {
		t.Errorf("%v, %+v", err, quick.Violations())
	}
}
