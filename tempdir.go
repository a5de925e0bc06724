package srt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/rmtree"
)

// tempPrefix begins the name of every private temporary directory.
const tempPrefix = "srt-run-"

// tempDir is the private temporary directory of one run. Its lock tells other
// runs that it is in use; the kernel gives the lock up with the process.
type tempDir struct {
	path string
	lock *os.File
}

// tempDirAttempts bounds retries. Another run that looks for leftovers may take
// a directory that is not locked yet for one; a new name solves that.
const tempDirAttempts = 100

// newTempDir creates a directory that only the caller can enter, where the
// caller's own temporary files are, or if nothing can be made there, where the
// system's are.
func newTempDir(warn func(string)) (*tempDir, error) {
	parents := tempParents()
	t, err := newTempDirIn(parents[0])
	if err == nil || len(parents) == 1 {
		return t, err
	}
	t, second := newTempDirIn(parents[1])
	if second != nil {
		return nil, err
	}
	warn(fmt.Sprintf("no temporary directory can be made in %s, which TMPDIR names (%v); the command's is in %s", parents[0], errors.Unwrap(err), parents[1]))
	return t, nil
}

// tempParents are the directories for temporary directories, the best first.
func tempParents() []string {
	first := os.TempDir()
	if abs, err := filepath.Abs(first); err == nil {
		first = abs
	}
	if first == systemTempDir || systemTempDir == "" {
		return []string{first}
	}
	return []string{first, systemTempDir}
}

// newTempDirIn creates the directory below parent. The name is not guessable, and
// an existing object of that name is an error.
func newTempDirIn(parent string) (*tempDir, error) {
	var last error
	for range tempDirAttempts {
		path := filepath.Join(parent, tempPrefix+strings.ToLower(rand.Text()[:20]))
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, fmt.Errorf("making the command's temporary directory: %w (TMPDIR names the directory to make it in)", err)
		}
		lock, err := lockDir(path)
		if err == nil {
			return &tempDir{path: path, lock: lock}, nil
		}
		os.Remove(path)
		last = fmt.Errorf("locking the command's temporary directory %s: %w", path, err)
	}
	return nil, last
}

// remove deletes the directory with everything in it.
func (t *tempDir) remove() error {
	defer t.lock.Close()
	return rmtree.Remove(t.path)
}

// collectTempDirs removes what runs left behind that were killed together with
// their supervisor. Only directories of this user whose lock is free are touched.
func collectTempDirs() {
	for _, parent := range tempParents() {
		collectTempDirsIn(parent)
	}
}

func collectTempDirsIn(parent string) {
	dir, err := os.Open(parent)
	if err != nil {
		return
	}
	defer dir.Close()
	const manyEntries = 50_000 // a directory this full is not worth the time
	names, err := dir.Readdirnames(manyEntries)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, tempPrefix) {
			collectTempDir(filepath.Join(parent, name))
		}
	}
}

func collectTempDir(path string) {
	if !ownPrivateDir(path) {
		return
	}
	lock, err := lockDir(path)
	if err != nil {
		return // in use
	}
	defer lock.Close()
	_ = rmtree.Remove(path)
}

// makeTempDir picks the command's temporary directory: a private one, unless
// the caller names one or the settings switch file rules off.
func (s *Sandbox) makeTempDir(cfg *config.Config, at place) (*tempDir, error) {
	if cfg.Filesystem.Disabled {
		return nil, nil
	}
	for _, name := range []string{"CLAUDE_CODE_TMPDIR", "CLAUDE_TMPDIR"} {
		if dir, _ := s.options.lookup(name); dir != "" {
			return callersTempDir(name, dir, at)
		}
	}
	return newTempDir(s.options.warn)
}

// callersTempDir uses a directory that the caller's environment names. A relative
// one starts at the command's working directory, as it would without a sandbox.
func callersTempDir(name, dir string, at place) (*tempDir, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(at.dir, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("using the temporary directory in %s: %w", name, err)
	}
	return &tempDir{path: dir}, nil
}

// writable lists the write roots that the directory adds.
func (t *tempDir) writable() []string {
	if t == nil {
		return nil
	}
	return []string{t.path}
}

// variable is the value of TMPDIR; empty leaves the caller's.
func (t *tempDir) variable() string {
	if t == nil {
		return ""
	}
	return t.path
}

// private is the path to remove if this process dies; empty for a directory
// that is the caller's.
func (t *tempDir) private() string {
	if t == nil || t.lock == nil {
		return ""
	}
	return t.path
}

// discard removes a private directory and keeps the caller's own.
func (t *tempDir) discard() {
	if t != nil && t.lock != nil {
		_ = t.remove()
	}
}
