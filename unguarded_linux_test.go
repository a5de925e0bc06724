package srt

import (
	"errors"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// The warning comes once for a sandbox, not for each command.
func TestUnguardedIsSaidOnce(t *testing.T) {
	said := 0
	sb := newSandbox(t, func(c *config.Config) { c.Linux = &config.Linux{Guard: "off"} }, WithWarnings(func(text string) {
		if text == lostWithoutGuard {
			said++
		}
	}))
	for range 3 {
		cmd := sb.Command(t.Context(), "true")
		cmd.Dir = workDir(t)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	if said != 1 {
		t.Errorf("said %d times", said)
	}
}

// The Landlock backend is the guard: it never runs without, not even in the place of
// another.
func TestUnguardedLandlock(t *testing.T) {
	cfg := config.Default()
	cfg.Linux = &config.Linux{Backend: config.BackendLandlock, Guard: "off"}
	var unsupported *UnsupportedError
	if _, err := New(t.Context(), cfg); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "needs the guard") {
		t.Errorf("%v", err)
	}
	cfg.Linux.Backend, cfg.EnableWeakerNestedSandbox = "", true
	if l, _ := weakerLauncher(cfg, &StartError{Stage: "namespaces"}); l != nil {
		t.Errorf("%T replaces the other backend", l)
	}
}
