package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

func absentIn(t *testing.T, dir, name string, fold bool) policy.Absent {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	return policy.Absent{Parent: dir, Name: name, Fold: fold, Full: filepath.Join(dir, name), Dev: st.Dev, Ino: st.Ino, Rule: policy.Rule{Setting: "built-in", Entry: name}}
}

// Names are found in the directory that was looked at, wherever it is by then, and
// nothing that exists is overwritten.
func TestTakeNamesAway(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, other := filepath.Join(base, "dir"), filepath.Join(base, "other")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(other, 0o755)); err != nil {
		t.Fatal(err)
	}
	w, err := watch([]policy.Absent{absentIn(t, dir, ".bashrc", false), absentIn(t, dir, ".vscode", true), absentIn(t, dir, ".absent", false)})
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(base, "moved")
	if err := errors.Join(os.Rename(dir, moved), os.Symlink(other, dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{moved + "/.bashrc", moved + "/.vsCode", moved + "/.VSCODE", moved + "/plain", moved + "/.bashrc" + blockedSuffix, other + "/.bashrc"} {
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said, recorded := 0, 0
	p := &process{watched: w, request: launch.Request{Note: func(string) { said++ }, Violation: func(launch.Violation) { recorded++ }}}
	p.takeNamesAway()
	if said != 3 || recorded != 3 {
		t.Errorf("said %d, recorded %d", said, recorded)
	}
	for name, contents := range map[string]string{
		moved + "/.bashrc" + blockedSuffix: moved + "/.bashrc" + blockedSuffix, moved + "/.bashrc" + blockedSuffix + ".1": moved + "/.bashrc",
		moved + "/.vsCode" + blockedSuffix: moved + "/.vsCode", moved + "/.VSCODE" + blockedSuffix: moved + "/.VSCODE", moved + "/plain": moved + "/plain",
		other + "/.bashrc": other + "/.bashrc",
	} {
		if got, err := os.ReadFile(name); err != nil || string(got) != contents {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(moved + "/.bashrc"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf(".bashrc: %v", err)
	}
}

// What the user had before stays, however much it looks like a protected name.
// Neither closed directories nor taken names keep one where it is.
func TestTakeNamesAwayFromHostileDirectories(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 255)
	make := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	make(".VsCode")
	w, err := watch([]policy.Absent{absentIn(t, dir, ".bashrc", false), absentIn(t, dir, ".vscode", true), absentIn(t, dir, long, false)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".bashrc", ".vscode", ".VSCODE", long, ".bashrc" + blockedSuffix} {
		make(name)
	}
	for i := range maxAside {
		make(fmt.Sprintf(".bashrc%s.%d", blockedSuffix, i))
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	p := &process{watched: w, request: launch.Request{Note: func(string) {}, Violation: func(launch.Violation) {}}}
	p.takeNamesAway()
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{".VsCode": true, ".bashrc": false, ".vscode": false, ".VSCODE": false, long: false} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A directory that changed since it was looked at makes the run start over.
func TestWatchReplaced(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := absentIn(t, dir, ".bashrc", false)
	a.Ino++
	var start *launch.StartError
	if _, err := watch([]policy.Absent{a}); !errors.As(err, &start) || start.Stage != "changed" {
		t.Errorf("%v", err)
	}
	a.Parent = filepath.Join(dir, "none")
	if _, err := watch([]policy.Absent{a}); !errors.As(err, &start) || start.Stage != "changed" {
		t.Errorf("%v", err)
	}
}
