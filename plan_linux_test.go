package srt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// linux 128: an argument longer than the kernel takes is an error that says so;
// nothing runs and nothing is left.
func TestArgumentTooLong(t *testing.T) {
	sb := newSandbox(t, nil)
	dir := workDir(t)
	cmd := sb.Shell(t.Context(), "touch ran; "+strings.Repeat("x", 140_000))
	cmd.Dir = dir
	err := cmd.Run()
	var failed *CommandError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), unix.E2BIG.Error()) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// linux 129: a plan is made for one working directory, however often the caller
// changes its own meanwhile.
func TestWorkingDirectoryChanges(t *testing.T) {
	sb := newSandbox(t, nil)
	a, b := workDir(t), workDir(t)
	t.Chdir(a)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, dir := range []string{b, a} {
				_ = os.Chdir(dir)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() {
		close(stop)
		<-done
	}()
	for range 40 {
		out, err := sb.Shell(t.Context(), "pwd; echo x > made && rm made; d="+a+"; test $PWD = $d && d="+b+"; echo x > $d/made").CombinedOutput()
		dir, said, _ := strings.Cut(string(out), "\n")
		if dir != a && dir != b || strings.Count(said, "Read-only file system") != 1 {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
