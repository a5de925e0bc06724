package srt

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

func bubblewrapSandbox(t *testing.T) *Sandbox {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	return newSandbox(t, func(c *config.Config) { c.Linux = &config.Linux{Backend: config.BackendBubblewrap} })
}

// The output of a command ends when the command closes it, though bwrap lives on.
func TestBubblewrapOutputEnds(t *testing.T) {
	sb := bubblewrapSandbox(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := sb.Shell(t.Context(), "echo over; exec >&-; sleep 600")
	cmd.Dir, cmd.Stdout = workDir(t), w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(testutil.Patience / 2)) // the command sleeps longer
	if text, err := io.ReadAll(r); string(text) != "over\n" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	var exit *ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Signal != 9 {
		t.Errorf("ended with %v", err)
	}
}

// A run that is given up at any moment ends at once.
func TestBubblewrapGivenUp(t *testing.T) {
	sb := bubblewrapSandbox(t)
	dir := workDir(t)
	for delay := range 25 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(delay)*2*time.Millisecond)
		cmd := sb.Shell(ctx, "sleep 600")
		cmd.Dir, cmd.WaitDelay = dir, 10*time.Millisecond
		started := time.Now()
		if err := cmd.Run(); err == nil {
			t.Error("no error")
		}
		if took := time.Since(started); took > testutil.Patience/2 {
			t.Errorf("after %v: took %v", time.Duration(delay)*2*time.Millisecond, took)
		}
		cancel()
	}
}
