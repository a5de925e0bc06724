package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// Killing srt at any moment leaves no process, mount or file.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) { killAtAnyMoment(t, uid, workSettings) })
	}
}

func killAtAnyMoment(t *testing.T, uid int, settings string) {
	s := newSandboxed(t, uid, settings)
	before, mark := mountsOf(t), mark()
	for _, delay := range []time.Duration{0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 25, 60} {
		cmd := s.command("-c", "touch $TMPDIR/x; "+mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, text := range []string{mark, s.binary} {
		if pid := processWith(text); pid != "" {
			t.Errorf("process %s is left", pid)
		}
	}
	if pid := processOf(s.binary); pid != "" {
		t.Errorf("process %s is left", pid)
	}
	// A directory whose run was killed before srt-init knew of it waits
	// for the next run.
	if out, err := s.command("true").CombinedOutput(); err != nil {
		t.Fatalf("the next run: %v %s", err, out)
	}
	if left := s.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	added := func(m string) bool { return !slices.Contains(before, m) }
	// Other programs may mount something for a while.
	if !testutil.Within(testutil.Patience, func() bool { return !slices.ContainsFunc(mountsOf(t), added) }) {
		t.Errorf("mounts before %q, after %q", before, mountsOf(t))
	}
}

// Two hundred runs in one directory at the same time are all correct.
func TestParallelRuns(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			slots := make(chan struct{}, 16)
			var wait sync.WaitGroup
			for i := range 200 {
				slots <- struct{}{}
				wait.Go(func() {
					defer func() { <-slots }()
					out, err := s.command("-c", fmt.Sprintf("echo r%d > f%d; cat f%d; rm f%d; echo x > later.cfg; echo x > .bashrc; exit %d", i, i, i, i, i%7)).Output()
					status, said := 0, ""
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						status, said = exit.ExitCode(), string(exit.Stderr)
					} else if err != nil {
						t.Error(err)
					}
					if string(out) != fmt.Sprintf("r%d\n", i) || status != i%7 {
						t.Errorf("run %d: %q, status %d, %v: %s", i, out, status, err, said)
					}
				})
			}
			wait.Wait()
			if left := s.leftovers(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}
