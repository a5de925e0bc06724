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
	sb := newSandbox(t, nil)
	// On a busy machine the shell may need longer to set its trap.
	limited := func(limit time.Duration, script string, delay time.Duration) ([]byte, *ExitError) {
		cmd := sb.Shell(t.Context(), script)
		cmd.Dir, cmd.WaitDelay, cmd.Limits = workDir(t), delay, &config.Limits{WallTime: config.Duration(limit)}
		out, err := cmd.Output()
		var exit *ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%q, %v", out, err)
		}
		return out, exit
	}
	for limit := 200 * time.Millisecond; ; limit *= 4 {
		out, exit := limited(limit, `trap 'echo asked; exit 5' TERM; echo set; while :; do sleep 0.05; done`, 0)
		if exit.Signal == 15 && string(out) != "set\nasked\n" && limit < time.Minute {
			continue
		}
		if exit.Code != 5 || string(out) != "set\nasked\n" {
			t.Fatalf("%q, %v", out, exit)
		}
		if v := exit.Violations; len(v) != 1 || v[0].Line != "deny limit wallTime "+config.Duration(limit).String() || v[0].Setting != "raise limits.wallTime above "+config.Duration(limit).String() {
			t.Errorf("%+v", v)
		}
		_, exit = limited(limit, `trap '' TERM; while :; do sleep 0.05; done`, 100*time.Millisecond)
		if exit.Signal == 15 && limit < time.Minute {
			continue
		}
		if exit.Signal != 9 || len(exit.Violations) != 1 {
			t.Errorf("%v", exit)
		}
		break
	}
	quick := sb.Command(t.Context(), "true")
	quick.Dir, quick.Limits = workDir(t), &config.Limits{WallTime: config.Duration(time.Hour)}
	if err := quick.Run(); err != nil || len(quick.Violations()) != 0 {
		t.Errorf("%v, %+v", err, quick.Violations())
	}
}
