package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// replacedTechniques attack invariant 4 once a process of the host has replaced the
// protected file .npmrc, made .husky and sub again, and made .vscode, sub/.idea and
// a repository, which were missing.
var replacedTechniques = []technique{
	{"replaced: nothing yet", awaitHost},
	{"replaced: by open", func() error { return open(".npmrc", unix.O_WRONLY) }},
	{"replaced: by open for appending", func() error { return open(".npmrc", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND) }},
	{"replaced: by truncation", func() error { return unix.Truncate(".npmrc", 1) }},
	{"replaced: by a descriptor for reading, opened again", again(unix.O_RDONLY, unix.O_WRONLY)},
	{"replaced: by a descriptor for nothing, opened again", again(unix.O_PATH, unix.O_RDWR)},
	{"replaced: by a descriptor, opened again for creating", again(unix.O_RDONLY, unix.O_WRONLY|unix.O_CREAT)},
	{"replaced: by a descriptor, truncated", func() error {
		return withDescriptor(".npmrc", unix.O_RDONLY, func(name string) error { return unix.Truncate(name, 1) })
	}},
	{"replaced: by another name", func() error {
		_ = os.Remove("other")
		return unix.Link(".npmrc", "other")
	}},
	{"replaced: by another name of a descriptor", func() error {
		_ = os.Remove("other")
		return withDescriptor(".npmrc", unix.O_RDONLY, func(name string) error {
			return unix.Linkat(unix.AT_FDCWD, name, unix.AT_FDCWD, "other", unix.AT_SYMLINK_FOLLOW)
		})
	}},
	{"replaced: by a path that changes", raceReplaced},
	{"replaced: in a directory made again", func() error { return open(".husky/new", unix.O_WRONLY|unix.O_CREAT) }},
	{"replaced: a file of a directory made again", func() error { return open(".husky/file", unix.O_WRONLY) }},
	{"replaced: below a directory made again", func() error { return unix.Mkdir(".husky/deep/new", 0o700) }},
	{"replaced: by renaming into a directory made again", func() error { return replace(".husky/file") }},
	{"replaced: by removing from a directory made again", func() error { return unix.Unlink(".husky/file") }},
	{"replaced: in a directory that was missing", func() error { return open(".vscode/new", unix.O_WRONLY|unix.O_CREAT) }},
	{"replaced: a file of a directory that was missing", func() error { return open(".vscode/file", unix.O_WRONLY) }},
	{"replaced: in a directory that was missing further down", func() error { return unix.Mkdir("sub/.idea/new", 0o700) }},
	{"replaced: below a parent made again", func() error { return open("sub/.npmrc", unix.O_WRONLY|unix.O_CREAT) }},
	{"replaced: in a configured directory whose parent was made again", func() error { return open("conf/d/new", unix.O_WRONLY|unix.O_CREAT) }},
	{"replaced: by a tree in the place of a parent made again", func() error {
		_ = os.RemoveAll("tree")
		if err := errors.Join(os.MkdirAll("tree/d", 0o700), unix.Rename("conf", "conf.aside")); err != nil {
			return err
		}
		return unix.Rename("tree", "conf")
	}},
}

// withDescriptor calls try with the name that an open file has in /proc.
func withDescriptor(name string, flags int, try func(string) error) error {
	fd, err := unix.Open(name, flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return try(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func again(first, then int) func() error {
	return func() error {
		return withDescriptor(".npmrc", first, func(name string) error { return open(name, then) })
	}
}

// raceReplaced aims an open at a FIFO, which may block, and exchanges the path for
// the protected one while somebody looks at it.
func raceReplaced() error {
	if err := unix.Mkfifo("fifo", 0o600); err != nil && err != unix.EEXIST {
		return err
	}
	path, stop := []byte("fifo\x00\x00\x00"), make(chan struct{})
	flipped := make(chan struct{})
	go func() {
		defer close(flipped)
		for {
			for _, text := range []string{"fifo\x00\x00\x00", ".npmrc\x00"} {
				copy(path, text)
				select {
				case <-stop:
					return
				default:
				}
			}
		}
	}()
	defer func() { close(stop); <-flipped }()
	for end := time.Now().Add(4 * raceTime()); time.Now().Before(end); {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, cwdArg, uintptr(unsafe.Pointer(&path[0])), unix.O_WRONLY|unix.O_NONBLOCK, 0, 0, 0)
		if e != 0 {
			continue
		}
		var st unix.Stat_t
		err := unix.Fstat(int(fd), &st)
		unix.Close(int(fd))
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			return nil
		}
	}
	return unix.EPERM
}

// awaitHost lets the host act between two techniques.
func awaitHost() error {
	if err := os.WriteFile("ready", nil, 0o600); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if unix.Access("go", unix.F_OK) == nil {
			return unix.EPERM // no success of this program's
		}
	}
	return nil
}

const replacedSettings = `{"linux":{"backend":"%s"},"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":["conf/d"]}}`

// What is protected stays so when a process of the host replaces it, which takes
// its mount away, and when one makes what was missing.
func TestReplacedByHost(t *testing.T) {
	for _, uid := range users() {
		for _, backend := range []string{"native", "bubblewrap", "landlock"} {
			t.Run(fmt.Sprint("uid", uid, backend), func(t *testing.T) {
				if _, err := exec.LookPath("bwrap"); backend == "bubblewrap" && err != nil {
					t.Skip(err)
				}
				if backend == "landlock" && inside.LandlockABI() == 0 {
					t.Skip("this kernel has no Landlock")
				}
				s := newSandboxed(t, uid, fmt.Sprintf(replacedSettings, backend))
				s.plant()
				failed := make(chan error, 1)
				go func() { failed <- s.replaceAsHost() }()
				out := s.attack(nil, nil, "replaced")
				if err := <-failed; err != nil {
					t.Fatal(err)
				}
				expect(t, out, len(replacedTechniques), 0)
			})
		}
		t.Run(fmt.Sprint("uid", uid, "control"), func(t *testing.T) {
			s := newSandboxed(t, uid, fmt.Sprintf(replacedSettings, "native"))
			s.plant()
			failed := make(chan error, 1)
			go func() { failed <- s.replaceAsHost() }()
			out := s.unconfined([]string{"RACE_CONTROL=yes"}, nil, "replaced")
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			expect(t, out, 1, len(replacedTechniques)-1)
		})
	}
}

// plant makes what is there before the run.
func (s *sandboxed) plant() {
	s.t.Helper()
	for _, dir := range []string{".husky/deep", "sub", "conf/d"} {
		if err := s.asUser("mkdir", "-p", dir); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{".npmrc", ".husky/file", "conf/d/file"} {
		s.file(filepath.Join(s.dir, name), "before")
	}
}

// replaceAsHost does, once the command runs, what tools of the host do.
func (s *sandboxed) replaceAsHost() error {
	if err := s.awaitCommand(); err != nil {
		return err
	}
	return s.asUser("sh", "-ec", `
echo after >.npmrc.new; mv .npmrc.new .npmrc
rm -r .husky sub conf; mkdir -p .husky/deep .vscode sub/.idea conf/d
for f in .husky .vscode sub/.idea conf/d; do echo after >$f/file; done
: >go`)
}

func (s *sandboxed) asUser(args ...string) error {
	cmd := s.command()
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = path, args
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w: %s", args, err, out)
	}
	return nil
}

// A file that git of the host writes, to become the configuration a moment later,
// cannot be written to meanwhile.
func TestLockFileOfHost(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			if err := s.asUser("git", "init", "-q"); err != nil {
				t.Skip(err)
			}
			expect(t, s.whileGitWrites(s.attack), 1, 0)
			expect(t, s.whileGitWrites(s.unconfined), 0, 1)
		})
	}
}

// whileGitWrites tries to catch the lock file.
func (s *sandboxed) whileGitWrites(try func(env []string, stdin *os.File, names ...string) string) string {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			_ = s.asUser("git", "config", "user.name", "x")
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	return try(nil, nil, "lock file: ")
}

// lockFileTechniques open the lock file of git's configuration when it is there.
var lockFileTechniques = []technique{
	{"lock file: by open", func() error {
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if open(".git/config.lock", unix.O_WRONLY) == nil {
				return nil
			}
		}
		return unix.EPERM
	}},
}

// A program of the host that writes the configuration of git again and again does
// not keep a sandbox from being built, nor is what it writes touched.
func TestStartWhileHostWrites(t *testing.T) {
	const runs = 12
	for _, uid := range users() {
		for _, linux := range []string{`"backend":"native"`, `"backend":"bubblewrap"`, `"backend":"landlock"`, `"guard":"off"`} {
			t.Run(fmt.Sprint("uid", uid, linux), func(t *testing.T) {
				if backend := strings.TrimPrefix(linux, `"backend":`); backend != linux {
					needBackend(t, strings.Trim(backend, `"`))
				}
				s := newSandboxed(t, uid, fmt.Sprintf(`{"linux":{%s},"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`, linux))
				git := filepath.Join(s.dir, ".git")
				for _, dir := range []string{git, filepath.Join(git, "objects"), filepath.Join(git, "refs")} {
					s.directory(dir)
				}
				s.file(filepath.Join(git, "HEAD"), "ref: refs/heads/main\n")
				s.file(filepath.Join(git, "config"), "")
				stop, failed := make(chan struct{}), make(chan error, 1)
				go func() { failed <- writeLocked(filepath.Join(git, "config"), stop) }()
				for range runs {
					if out, err := s.command("true").CombinedOutput(); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				}
				close(stop)
				if err := <-failed; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// writeLocked takes and drops the lock of a file as git does, and at times writes it.
func writeLocked(name string, stop <-chan struct{}) error {
	for n := 0; ; n++ {
		f, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		f.Close()
		time.Sleep(time.Millisecond)
		if n%20 == 0 {
			err = os.Rename(name+".lock", name)
		} else {
			err = os.Remove(name + ".lock")
		}
		if err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}
