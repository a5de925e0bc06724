package srt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Directories that a command closed to itself go away, too.
func TestRemoveTree(t *testing.T) {
	dir := workDir(t)
	for _, name := range []string{"x/a/b", "x/closed/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"x/closed/deep", "x/closed", "x/a"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	openDirectories(root, "x")
	fi, err := os.Stat(filepath.Join(dir, "x/closed/deep"))
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	if err := removeTree(filepath.Join(dir, "x")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// A link that takes a directory's place at the wrong moment leads nowhere: what
// lies outside keeps its mode.
func TestRemoveTreeFollowsNothing(t *testing.T) {
	dir, outside := workDir(t), workDir(t)
	if err := os.Chmod(outside, 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "x", "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "x", "l")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d, l := filepath.Join(dir, "x", "d"), filepath.Join(dir, "x", "l")
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
			}
		}
	}()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		openDirectories(root, "x")
	}
	close(stop)
	<-done
	if fi, err := os.Stat(outside); err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("the mode outside was changed: %v, %v", fi.Mode(), err)
	}
}
