//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// A file that is there but cannot be read is never "missing", and the message
// has the system's symbol.
func TestLoadFailures(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "file", "x")
	dangling, loop := filepath.Join(dir, "dangling"), filepath.Join(dir, "loop")
	for link, target := range map[string]string{dangling: filepath.Join(dir, "nowhere"), loop: loop} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		path string
		want error
		text string
	}{
		"config 7 directory":    {dir, syscall.EISDIR, "EISDIR"},
		"config 6 not a folder": {DefaultPath(file), syscall.ENOTDIR, "ENOTDIR"},
		"links in a circle":     {loop, syscall.ELOOP, "ELOOP"},
		"link to nothing":       {dangling, nil, "ENOENT"},
	} {
		_, _, err := Load(c.path)
		if err == nil || errors.Is(err, ErrMissing) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// config 8
func TestLoadWithoutPermission(t *testing.T) {
	if testutil.RunOrdinary(t) {
		return
	}
	p := writeFile(t, t.TempDir(), "closed", settings("", "", ""))
	if err := os.Chmod(p, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(p); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "EACCES") {
		t.Errorf("%v", err)
	}
}

// config 13, 14: a pipe is read to its end.
func TestLoadPipe(t *testing.T) {
	p := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err == nil {
			for _, part := range []string{settings("", "", "")[:20], settings("", "", "")[20:]} {
				if _, e := f.WriteString(part); e != nil {
					err = e
				}
			}
			err = errors.Join(err, f.Close())
		}
		written <- err
	}()
	c, _, err := Load(p)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err != nil || len(c.Network.AllowedDomains) != 1 {
		t.Errorf("%v", err)
	}
}
