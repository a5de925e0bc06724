package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// users are the user numbers that tests run as.
func users() []int {
	if os.Getuid() == 0 {
		return []int{0, ordinaryUser}
	}
	return []int{os.Getuid()}
}

// sandboxed prepares the built srt in a directory of the user's own.
type sandboxed struct {
	t                      *testing.T
	binary, dir, home, tmp string
	settings               string
	uid                    int
}

func newSandboxed(t *testing.T, uid int, settings string) *sandboxed {
	t.Helper()
	root := openTempDir(t)
	s := &sandboxed{t: t, uid: uid, binary: filepath.Join(root, "srt"), dir: filepath.Join(root, "w"), home: filepath.Join(root, "home"), tmp: filepath.Join(root, "tmp"), settings: filepath.Join(root, "settings.json")}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is srt when it is called by that name. A process started
	// meanwhile by another test would hold the file open and keep it from running.
	syscall.ForkLock.RLock()
	err = os.WriteFile(s.binary, data, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{s.dir, s.home, s.tmp} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(d, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(s.settings, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sandboxed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, append([]string{"--settings", s.settings}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.home, "TMPDIR=" + s.tmp, "GORACE=" + os.Getenv("GORACE")}
	if os.Getuid() == 0 && s.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	return cmd
}

// leftovers lists what a run should have taken away.
func (s *sandboxed) leftovers() []string {
	var all []string
	for _, d := range []string{s.dir, s.tmp} {
		entries, err := os.ReadDir(d)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, filepath.Join(d, e.Name()))
		}
	}
	return all
}

// mountsOf are the mounts here.
func mountsOf(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

const workSettings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":["later.cfg"]}}`

// processOf waits until no process executes the binary, whatever it calls itself,
// or is about to: bwrap holds it as a descriptor. It returns one that stays.
func processOf(binary string) (found string) {
	testutil.Within(testutil.Patience, func() bool {
		found = ""
		for _, link := range []string{"exe", "fd/6"} {
			links, _ := filepath.Glob("/proc/[0-9]*/" + link)
			for _, name := range links {
				if target, err := os.Readlink(name); err == nil && target == binary {
					found = name
				}
			}
		}
		return found == ""
	})
	return found
}

// processWith waits until no process has the text in its command line, and returns
// one that stays. Only a text of the test's own tells its processes from others.
func processWith(text string) (found string) {
	testutil.Within(testutil.Patience, func() bool {
		found = ""
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			line, err := os.ReadFile(name)
			if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
				found = name
			}
		}
		return found == ""
	})
	return found
}
