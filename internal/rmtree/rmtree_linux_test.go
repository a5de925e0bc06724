package rmtree

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tree may be deeper than a process may have descriptors, and than a path may be
// long.
func TestDeep(t *testing.T) {
	var limit, old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	limit = old
	limit.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, (*syscall.Rlimit)(&limit)); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, (*syscall.Rlimit)(&old))
	top := filepath.Join(t.TempDir(), "top")
	if err := os.Mkdir(top, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := unix.Open(top, directoryFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := unix.Mkdirat(dir, "deeper", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := open(dir, "deeper")
		if err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			_ = unix.Mknodat(next, fmt.Sprint("file", i), unix.S_IFREG|0o600, 0)
		}
		if i%500 == 3 { // closed, and at some depth to be moved
			_ = unix.Fchmod(dir, 0)
		}
		unix.Close(dir)
		dir = next
	}
	unix.Close(dir)
	mustRemove(t, top)
}

func mustRemove(t *testing.T, name string) {
	t.Helper()
	if err := Remove(name); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
}

// More names than are read at a time, kinds of files, closed directories, nothing.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	top, kept := filepath.Join(dir, "top"), filepath.Join(dir, "kept")
	for _, name := range []string{"a/b", "closed/deep", "a/" + string([]byte{0xff, '\n', 0x1b})} {
		if err := os.MkdirAll(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2*batch + 100 {
		if err := os.WriteFile(filepath.Join(top, "a", fmt.Sprint(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(kept, 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "closed/link"} {
		if err := os.Symlink(kept, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(top, "fifo"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"closed/deep", "closed", "a", ""} {
		if err := os.Chmod(filepath.Join(top, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	mustRemove(t, top)
	mustRemove(t, top)
	mustRemove(t, filepath.Join(dir, "no", "such"))
	if fi, err := os.Stat(kept); err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("a link was followed: %v, %v", fi, err)
	}
	if _, err := os.Stat(filepath.Join(kept, "file")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := Remove("/proc/self/status"); err == nil {
		t.Error("a file that cannot be removed was")
	}
}

// A link that takes a directory's place at the wrong moment leads nowhere: what
// lies outside keeps its mode and what is in it.
func TestExchanged(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	file := filepath.Join(outside, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o751); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(dir, "top")
	d, l := filepath.Join(top, "d"), filepath.Join(top, "l")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
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
		_ = os.MkdirAll(filepath.Join(d, "in"), 0o700)
		_ = os.Symlink(outside, l)
		if fd, err := open(unix.AT_FDCWD, d); err == nil {
			_ = unix.Fchmod(fd, 0)
			unix.Close(fd)
		}
		_ = Remove(top)
	}
	close(stop)
	<-done
	if fi, err := os.Stat(outside); err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("the mode outside was changed: %v, %v", fi, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("what lies outside was removed:", err)
	}
}
