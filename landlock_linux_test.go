package srt

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Without namespaces srt-init kills what a command left one by one, and waits for
// the command in two places: the status is that of a killed command all the same.
func TestLandlockKilledStatus(t *testing.T) {
	if inside.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	sb := newSandbox(t, func(c *config.Config) { c.Linux = &config.Linux{Backend: config.BackendLandlock} })
	dir := workDir(t)
	for range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := sb.Shell(ctx, "for i in 1 2 3 4 5 6; do setsid sleep 31337 & done; echo up; while :; do sleep 1; done")
		cmd.Dir, cmd.Cancel, cmd.WaitDelay = dir, func() error { return nil }, time.Millisecond
		up := make(chan struct{}, 1)
		cmd.Stdout = writerFunc(func(b []byte) (int, error) { up <- struct{}{}; return len(b), nil })
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-up
		cancel()
		var exit *ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Signal != 9 {
			t.Fatalf("ended with %v", err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
