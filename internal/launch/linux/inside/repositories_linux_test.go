package inside

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/gitconfig"
)

func TestRepositoryParts(t *testing.T) {
	for _, name := range []string{"HEAD", "head", "refs", "refſ", "objects", "OBJECTſ", "commondir"} {
		if !repositoryPart(name) {
			t.Errorf("%q is not seen", name)
		}
	}
	for _, name := range []string{"", "HEAD2", "head.lock", "hooks", "config", "index", "object"} {
		if repositoryPart(name) {
			t.Errorf("%q is taken for a part", name)
		}
	}
}

// directory makes and opens a directory, with a HEAD if asked to.
func directory(t *testing.T, name string, head bool) int {
	t.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if head {
		if err := os.WriteFile(filepath.Join(name, headName), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := openObject(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// What is full forgets the directories that are gone or have no HEAD, and takes
// no more when there are none.
func TestRepositoriesAreBounded(t *testing.T) {
	dir := t.TempDir()
	r := newRepositories()
	r.most = 8
	note := func(name string, head, want bool) {
		t.Helper()
		if _, ok := r.note(directory(t, filepath.Join(dir, name), head), false); ok != want {
			t.Errorf("%s: %v", name, ok)
		}
	}
	for _, name := range strings.Fields("a b c d e f g") {
		note(name, true, true)
	}
	note("empty", false, true)
	note("a", true, true)
	note("h", true, true) // in the place of the empty one
	note("i", true, false)
	if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	note("k", true, true)
	note("l", true, false)
	if len(r.held) != r.most {
		t.Errorf("%d are held", len(r.held))
	}
}

// inspected looks at one directory and returns what was reported.
func inspected(t *testing.T, dir string) []string {
	t.Helper()
	reports, failed := inspect(t, dir, time.Time{})
	if failed {
		t.Error("the look failed")
	}
	return reports
}

func inspect(t *testing.T, dir string, until time.Time) (all []string, failed bool) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	n := &inspection{control: fds[0], common: map[object]bool{}, until: until}
	fd := directory(t, dir, true)
	directory(t, filepath.Join(dir, "objects"), false)
	directory(t, filepath.Join(dir, "refs"), false)
	n.repository(fd)
	for {
		kind, body, _, err := ReceiveMessage(fds[1])
		if err != nil {
			return all, n.failed
		}
		f := strings.Split(string(body), "\x00")
		if kind != MessageBlocked || len(f) != 5 {
			t.Fatalf("message %c %q", kind, body)
		}
		all = append(all, f[4])
	}
}

func TestInspection(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		want string // of the outcome; empty for no report
	}{
		"stock":           {func(dir string) error { return write(dir, "config", "[core]\n\tbare = false\n", 0o644) }, ""},
		"sample":          {func(dir string) error { return write(dir, "hooks/update.sample", "", 0o755) }, ""},
		"plain":           {func(dir string) error { return write(dir, "hooks/update", "", 0o644) }, ""},
		"hook":            {func(dir string) error { return write(dir, "hooks/update", "", 0o755) }, "executable hook: renamed to update.srt-blocked"},
		"renamed earlier": {func(dir string) error { return write(dir, "hooks/update.srt-blocked", "", 0o755) }, ""},
		"long":            {func(dir string) error { return write(dir, "hooks/"+strings.Repeat("x", 255), "", 0o755) }, "executable hook: renamed to " + strings.Repeat("x", 200) + ".srt-blocked"},
		"FIFO":            {func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "config"), 0o644) }, "a configuration that cannot be read: renamed to config.srt-blocked"},
		"directory":       {func(dir string) error { return write(dir, "config/x", "", 0o644) }, ""},
		"mistake":         {func(dir string) error { return write(dir, "config", "[core\n", 0o644) }, "a configuration with mistakes: renamed to config.srt-blocked"},
		"lines":           {func(dir string) error { return write(dir, "config", "[core]\n"+strings.Repeat("a\n", 50_001), 0o644) }, "a configuration that cannot be read: renamed to config.srt-blocked"},
		"many": {func(dir string) error {
			return write(dir, "config", "[alias]a=1\nb=2\nc=3\nd=4\ne=5\nf=6\ng=7\n", 0o644)
		}, "alias.a, alias.b, alias.c, alias.d, alias.e, …: renamed to config.srt-blocked, the rest of it is in its place"},
		"work tree": {func(dir string) error {
			return errors.Join(write(dir, "config", "[core]\nworktree = ../t\n", 0o644), write(dir, "../t/.git", "gitdir: ../d\n", 0o644))
		}, ""},
		"work tree above": {func(dir string) error {
			return errors.Join(write(dir, "config", "[core]\nworktree = ..\n", 0o644), os.Symlink("d", filepath.Join(dir, "../.git")))
		}, ""},
		"work tree of nothing": {func(dir string) error { return write(dir, "config", "[core]\nworktree = ..\n", 0o644) }, "core.worktree: renamed"},
		"work tree of another": {func(dir string) error {
			return errors.Join(write(dir, "config", "[core]\nworktree = ../t\n", 0o644), write(dir, "../t/.git/HEAD", "", 0o644))
		}, "core.worktree: renamed"},
		"missing work tree": {func(dir string) error { return write(dir, "config", "[core]\nworktree = ../x\n", 0o644) }, "core.worktree: renamed"},
		"work tree by a link": {func(dir string) error {
			return errors.Join(os.Symlink("..", filepath.Join(dir, "l")), write(dir, "config", "[core]\nworktree = l\n", 0o644))
		}, "core.worktree: renamed"},
		"common directory nowhere":   {func(dir string) error { return write(dir, "commondir", "../x\n", 0o644) }, "a commondir that leads nowhere: renamed to commondir.srt-blocked"},
		"common directory elsewhere": {func(dir string) error { return write(dir, "commondir", "/\n", 0o644) }, "a commondir that leads to no repository: renamed to commondir.srt-blocked"},
		"common directory by a link": {func(dir string) error { return os.Symlink("x", filepath.Join(dir, "commondir")) }, "a commondir that is not a plain file: renamed to commondir.srt-blocked"},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := errors.Join(os.Mkdir(dir, 0o755), c.make(dir)); err != nil {
			t.Fatal(err)
		}
		got := inspected(t, dir)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q", name, got)
		}
		if again := inspected(t, dir); len(again) > 0 {
			t.Errorf("%s, once more: %q", name, again)
		}
	}
}

// A repository that was complete before the run keeps what it has, also as the
// common directory of a new worktree.
func TestInspectionOfSharedRepository(t *testing.T) {
	root := t.TempDir()
	common, tree := filepath.Join(root, "c"), filepath.Join(root, "c/worktrees/t")
	text := "[core]\n\tpager = less\n"
	for _, name := range []string{"objects/x", "refs/x", headName} {
		if err := write(common, name, "", 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(write(common, "config", text, 0o644), write(tree, "commondir", "../..\n", 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := inspected(t, tree); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if err := os.Remove(filepath.Join(common, headName)); err != nil { // now it is none by itself
		t.Fatal(err)
	}
	if got := inspected(t, tree); len(got) != 1 || !strings.HasPrefix(got[0], "core.pager: renamed") {
		t.Errorf("%q", got)
	}
	data, err := os.ReadFile(filepath.Join(common, "config.srt-blocked"))
	if err != nil || string(data) != text {
		t.Errorf("the original: %q, %v", data, err)
	}
}

// What has no part that git asks for is somebody's files.
func TestInspectionOfOtherDirectories(t *testing.T) {
	for _, parts := range [][]string{{"HEAD", "objects/x"}, {"HEAD", "refs/x"}, {"objects/x", "refs/x"}, {"HEAD/x", "objects/x", "refs/x"}} {
		dir := t.TempDir()
		for _, name := range append(parts, "hooks/update") {
			if err := write(dir, name, "", 0o755); err != nil {
				t.Fatal(err)
			}
		}
		fd := directory(t, dir, false)
		(&inspection{control: -1}).repository(fd)
		if err := unix.Fstatat(fd, "hooks/update", new(unix.Stat_t), 0); err != nil {
			t.Errorf("%q: %v", parts, err)
		}
	}
}

// A configuration that somebody else makes as soon as there is none stays.
func TestInspectionBesideOthers(t *testing.T) {
	for range 300 {
		dir := t.TempDir()
		if err := write(dir, "config", "[core]\n\tpager = x\n", 0o644); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan bool)
		go func() {
			for {
				select {
				case <-stop:
					done <- false
					return
				default:
				}
				if f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
					f.Close()
					done <- true
					return
				}
			}
		}()
		inspect(t, dir, time.Time{})
		close(stop)
		if made := <-done; made {
			if _, err := os.Lstat(filepath.Join(dir, "config")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Without time left everything goes that could run something, but for directories
// that are no repositories.
func TestInspectionWithoutTime(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(write(dir, "config", "[core]\n\tbare = false\n", 0o644), write(dir, "hooks/update", "", 0o644), write(dir, "description", "", 0o644)); err != nil {
		t.Fatal(err)
	}
	got, _ := inspect(t, dir, time.Unix(1, 0))
	slices.Sort(got)
	if want := []string{"there was no time left to look at it: renamed to config.srt-blocked", "there was no time left to look at it: renamed to hooks.srt-blocked"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	other := t.TempDir()
	if err := errors.Join(write(other, "HEAD", "", 0o644), write(other, "hooks/update", "", 0o755)); err != nil {
		t.Fatal(err)
	}
	n := &inspection{control: -1, until: time.Unix(1, 0)}
	n.repository(directory(t, other, false))
	if _, err := os.Lstat(filepath.Join(other, "hooks/update")); err != nil {
		t.Error(err)
	}
}

func write(dir, name, text string, mode os.FileMode) error {
	name = filepath.Join(dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode))
}

// FuzzInspection: whatever the configuration says, what is left of it runs
// nothing, and a second look finds nothing to do.
func FuzzInspection(f *testing.F) {
	f.Add([]byte("[core]\n\tfsmonitor = x\n\tbare = false\n[remote \"o\"]\n\turl = u\n"))
	f.Add([]byte("[core]\nfsmonitor = x\n[broken"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := write(dir, "config", string(data), 0o644); err != nil {
			t.Fatal(err)
		}
		inspected(t, dir)
		left, err := os.ReadFile(filepath.Join(dir, "config"))
		entries, syntax := gitconfig.Parse(left)
		if err == nil && syntax != nil {
			t.Errorf("%q became %q", data, left)
		}
		for _, e := range entries {
			if gitconfig.RunsPrograms(e) {
				t.Errorf("%q became %q", data, left)
			}
		}
		if again := inspected(t, dir); len(again) > 0 {
			t.Errorf("%q, once more: %q", data, again)
		}
	})
}
