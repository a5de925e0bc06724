package srt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// Two thousand runs of every kind leave nothing: no file, mount, process,
// descriptor or goroutine.
func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	runs, parallel := 2000, 4
	if raceEnabled {
		runs, parallel = 60, 8
	}
	w := newLeftoverWatch(t)
	plain := newSandbox(t, nil)
	strict := newSandbox(t, func(c *config.Config) {
		c.Network.AllowedDomains = []string{"example.com"}
		c.Filesystem.DenyWrite = []config.PathEntry{{Path: "kept"}, {Path: "absent/deep"}, {Path: "*.cfg"}}
		c.Filesystem.DenyRead = []config.PathEntry{{Path: "secret"}, {Path: "**/*.key"}}
	})
	if err := plain.Command(t.Context(), "true").Run(); err != nil { // what is made once exists from here on
		t.Fatal(err)
	}
	before := w.look()
	slots := make(chan struct{}, parallel)
	var wait sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := oneOfMany(t.Context(), i, plain, strict, w.dir); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		})
	}
	wait.Wait()
	w.compare(before)
}

// oneOfMany makes a run whose kind depends on its number.
func oneOfMany(ctx context.Context, i int, plain, strict *Sandbox, dir string) error {
	switch i % 5 {
	case 0:
		return plain.Command(ctx, "true").Run()
	case 1:
		cmd := strict.Shell(ctx, `echo x > own$0; rm own$0; { mkdir absent; echo x > kept; echo x > b.cfg; } 2>/dev/null; touch $TMPDIR/t; mkdir -m 0 $TMPDIR/closed; sleep 1000 & exit 3`, fmt.Sprint(i))
		cmd.Dir = dir
		var exit *ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.Code != 3 {
			return fmt.Errorf("status 3 expected: %w", err)
		}
		return nil
	case 2:
		return killedRun(ctx, strict, dir, false)
	case 3:
		return killedRun(ctx, plain, dir, true)
	default:
		return refusedRun(ctx, i, plain, dir)
	}
}

// killedRun ends a run at a random moment.
func killedRun(ctx context.Context, sb *Sandbox, dir string, cancelled bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := sb.Shell(ctx, "touch $TMPDIR/t; sleep 1000 & mkdir .vscode 2>/dev/null; sleep 1000")
	cmd.Dir, cmd.WaitDelay = dir, time.Millisecond
	moment := time.Duration(rand.IntN(20_000)) * time.Microsecond
	if cancelled {
		defer time.AfterFunc(moment, cancel).Stop()
	}
	if err := cmd.Start(); err != nil {
		if cancelled {
			return nil
		}
		return err
	}
	if !cancelled {
		defer time.AfterFunc(moment, func() { _ = cmd.Kill() }).Stop()
	}
	if err := cmd.Wait(); err == nil {
		return errors.New("the run ended by itself")
	}
	return nil
}

// refusedRun does not get as far as running anything.
func refusedRun(ctx context.Context, i int, sb *Sandbox, dir string) error {
	cmd := sb.Command(ctx, "no-such-program")
	switch i % 3 {
	case 0:
		cmd.Dir = filepath.Join(dir, "gone")
	case 1:
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.Stdin = f // a directory
	}
	if cmd.Run() == nil {
		return errors.New("an error expected")
	}
	return nil
}

// leftoverWatch looks at everything that a run could leave.
type leftoverWatch struct {
	t        *testing.T
	dir, tmp string
}

func newLeftoverWatch(t *testing.T) *leftoverWatch {
	t.Helper()
	w := &leftoverWatch{t: t, dir: workDir(t), tmp: workDir(t)}
	t.Setenv("TMPDIR", w.tmp)
	for name, text := range map[string]string{"kept": "kept", "b.cfg": "x", "secret/s.key": "secret", ".git/HEAD": "ref: refs/heads/main"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// traces is what was there at one moment. Other programs may mount something
// meanwhile, but not for as long as a mount that is left.
type traces struct {
	files, mounts, children []string
	descriptors, goroutines int
}

func (w *leftoverWatch) look() traces {
	w.t.Helper()
	var s traces
	for _, d := range []string{w.dir, w.tmp} {
		err := filepath.WalkDir(d, func(p string, _ fs.DirEntry, err error) error {
			s.files = append(s.files, p)
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	s.mounts = strings.Split(string(mounts), "\n")
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		children, _ := os.ReadFile(l)
		s.children = append(s.children, strings.Fields(string(children))...)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	s.descriptors, s.goroutines = len(open), runtime.NumGoroutine()
	return s
}

// compare waits until nothing is there that was not before. What ends in the
// background, such as a goroutine that has said its last word, gets its time.
func (w *leftoverWatch) compare(before traces) {
	w.t.Helper()
	var now traces
	same := testutil.Within(testutil.Patience, func() bool {
		runtime.GC()
		now = w.look()
		added := slices.ContainsFunc(now.mounts, func(m string) bool { return !slices.Contains(before.mounts, m) })
		return slices.Equal(now.files, before.files) && !added && len(now.children) <= len(before.children) &&
			now.descriptors <= before.descriptors && now.goroutines <= before.goroutines
	})
	if !same {
		w.t.Errorf("before: %+v\nafter: %+v", before, now)
	}
}
