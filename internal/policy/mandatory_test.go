package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/protected"
)

// cli 51, linux 79, fs-08: every name of the table, existing and absent.
func TestEveryProtectedName(t *testing.T) {
	absentTree := newFake(user, "/home/u/w/x")
	p := mustResolveFake(t, absentTree, allowing("."))
	f := newFake(user, "/home/u/w/x")
	for _, name := range protected.Everywhere() {
		answers(t, p, "create /home/u/w/"+name+" EPERM")
		f.put("/home/u/w/"+name, &fakeNode{kind: File, mode: 0o644, uid: user})
	}
	p = mustResolveFake(t, f, allowing("."))
	for _, name := range protected.Everywhere() {
		answers(t, p, "write /home/u/w/"+name+" EROFS", "remove /home/u/w/"+name+" EBUSY", "to /home/u/w/"+name+" EBUSY")
	}
	answers(t, p, "create /home/u/w/.claude/other ok", "from /home/u/w/.claude EBUSY")
}

// The list of the TypeScript srt, which nothing may be taken from.
func TestReferenceNamesStay(t *testing.T) {
	all := " " + strings.Join(protected.Everywhere(), " ") + " "
	for _, name := range strings.Fields(".gitconfig .gitmodules .bashrc .bash_profile .zshrc .zprofile .profile .ripgreprc .mcp.json .vscode .idea .claude/commands .claude/agents") {
		if !strings.Contains(all, " "+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
}

// fs-10, linux 33: the home directory, where it is writable.
func TestHomeNames(t *testing.T) {
	f := newFake(user, "/home/u/w/x", "/home/u/.bashrc", "/home/u/.config/app", "/home/u/.ssh/known_hosts")
	p := mustResolveFake(t, f, allowing("~"))
	answers(t, p, "write /home/u/.bashrc EROFS", "create /home/u/.zshrc EPERM", "create /home/u/.gitconfig EPERM", "create /home/u/.config/fish EPERM", "create /home/u/.config/git EPERM", "create /home/u/.config/other ok",
		"create /home/u/.ssh/config EPERM", "create /home/u/.ssh/authorized_keys EPERM", "write /home/u/.ssh/known_hosts ok", "create /home/u/.xprofile EPERM", "create /home/u/w/.xprofile ok", "create /home/u/other ok")
	// Without these directories other programs can make them.
	p = mustResolveFake(t, newFake(user, "/home/u/w/x"), allowing("~"))
	answers(t, p, "create /home/u/.config ok", "create /home/u/.ssh ok")
	// Where the home directory is not writable there is nothing to protect.
	p = mustResolveFake(t, f, allowing("."))
	answers(t, p, "create /home/u/.config/fish EROFS", "create /home/u/w/.config ok")
}

// cli 53, linux 80, 81, 82, 83: what the search finds, and how deep.
func TestSearchDepth(t *testing.T) {
	tree := []string{"/home/u/w/.gitignore", "/home/u/w/.ignore", "/home/u/w/.BashRC"}
	for i, dir := range []string{"", "/a", "/a/b", "/a/b/c", "/a/b/c/d"} {
		tree = append(tree, "/home/u/w"+dir+"/.Zshrc", "/home/u/w"+dir+"/.vscode/x", "/home/u/w"+dir+"/.claude/commands/x", "/home/u/w"+dir+"/.claude/free", "/home/u/w"+dir+"/.idea/", fmt.Sprint("/home/u/w", dir, "/g", i, "/.git/HEAD"), fmt.Sprint("/home/u/w", dir, "/g", i, "/.git/config"))
	}
	tree = append(tree, "/home/u/w/node_modules/x/.bashrc", "/home/u/w/a/node_modules/.vscode/x")
	for depth := 1; depth <= 4; depth++ {
		p := mustResolveFake(t, newFake(user, tree...), func(in *Input, fs *config.Filesystem) {
			in.Config.MandatoryDenySearchDepth = depth
			fs.AllowWrite = entries(".")
		})
		expect := func(found bool, path string) {
			t.Helper()
			want := map[bool]string{true: " EROFS", false: " ok"}[found]
			answers(t, p, "write /home/u/w"+path+want)
		}
		for at, dir := range []string{"", "/a", "/a/b", "/a/b/c", "/a/b/c/d"} {
			root := at == 0
			expect(root || at <= depth-1, dir+"/.Zshrc")
			expect(root || at <= depth-2, dir+"/.vscode/x")
			expect(root || at <= depth-2, dir+"/.claude/commands/x")
			expect(root || at <= depth-2, dir+"/.idea")
			expect(false, dir+"/.claude/free")
			expect(at+1 <= depth-2, fmt.Sprint(dir, "/g", at, "/.git/config"))
		}
		answers(t, p, "write /home/u/w/.BashRC EROFS", "create /home/u/w/.bashrc EPERM", "write /home/u/w/node_modules/x/.bashrc ok", "write /home/u/w/a/node_modules/.vscode/x ok")
	}
}

// cli 56, linux 91: every write root, and the working directory inside one.
func TestEveryWriteRootIsProtected(t *testing.T) {
	f := newFake(user, "/home/u/p/sub/x", "/home/u/p/q/.git/HEAD", "/home/u/p/q/.git/hooks/x", "/srv/r/.bashrc", "/srv/file", "/home/u/tmp/x")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Cwd, in.ExtraWrite = "/home/u/p/sub", []string{"/home/u/tmp"}
		fs.AllowWrite = entries("~/p", "/srv/r", "/srv/file")
	})
	answers(t, p, "create /home/u/p/.bashrc EPERM", "create /home/u/p/sub/.zshrc EPERM", "write /home/u/p/q/.git/hooks/x EROFS", "write /srv/r/.bashrc EROFS", "write /srv/file ok", "create /home/u/tmp/.bashrc ok")
}

// linux 92: the caller's own closed directories; others' stay as they are.
func TestUnreadableDirectories(t *testing.T) {
	f := newFake(user, "mode=0 /home/u/w/own/", "mode=0 uid=0 /home/u/w/theirs/", "mode=0400 /home/u/w/half/", "/home/u/w/half/sub/.bashrc", "mode=0300 /home/u/w/a/drop/")
	p := mustResolveFake(t, f, allowing("."))
	answers(t, p, "write /home/u/w/own EROFS", "from /home/u/w/own EBUSY", "write /home/u/w/half EROFS", "write /home/u/w/a/drop EROFS", "from /home/u/w/theirs ok")
}

// linux 36, fs-30: the files that decide about later runs, existing or not.
func TestProtectedPaths(t *testing.T) {
	f := newFake(user, "/home/u/w/settings.json", "/home/u/w/s -> settings.json", "/home/u/bin/srt")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Protected = []string{"/home/u/w/s", "/home/u/.srt-settings.json", "/home/u/bin/srt", "/dev/stdin"}
		fs.AllowWrite = entries("~", "~/bin/srt")
	})
	answers(t, p, "write /home/u/w/settings.json EROFS", "to /home/u/w/settings.json EBUSY", "remove /home/u/w/s EBUSY", "create /home/u/.srt-settings.json EPERM", "write /home/u/bin/srt EROFS", "from /home/u/bin EBUSY")
}

// linux 78, 93: many directories are searched by several helpers; the time for
// it ends.
func TestSearchOfManyDirectories(t *testing.T) {
	tr := newTree(t)
	for i := range 60 {
		tr.files(filepath.Join("w", fmt.Sprint("d", i), "sub", ".bashrc"), filepath.Join("w", fmt.Sprint("d", i), ".env"))
	}
	tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyRead = entries("."), entries("**/.env")
	p := tr.resolve()
	for i := range 60 {
		tr.expect(p, fmt.Sprintf("write w/d%d/sub/.bashrc EROFS", i), fmt.Sprintf("read w/d%d/.env EACCES", i))
	}
	in := tr.input()
	in.FS = slow{OSFS()}
	in.ScanTimeout = 20 * time.Millisecond
	start := time.Now()
	_, err := Resolve(t.Context(), in)
	var e *Error
	if !errors.As(err, &e) || e.Code != "deny_scan_failed" || time.Since(start) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

type slow struct{ FS }

func (s slow) Visit(p string) ([]Entry, protected.Identity, error) {
	time.Sleep(3 * time.Millisecond)
	return s.FS.Visit(p)
}

// Listings of the system agree with the standard library's, byte for byte.
func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for i := range 700 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d\xff\n", strings.Repeat("n", i%200), i)), nil, 0o644))
	}
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.Symlink("x", filepath.Join(dir, "l")))
	got, err := OSFS().ReadDir(dir)
	must(t, err)
	kinds := map[string]Kind{}
	for _, e := range got {
		kinds[e.Name] = e.Kind
	}
	want, err := os.ReadDir(dir)
	must(t, err)
	if len(got) != len(want) || kinds["d"] != Dir || kinds["l"] != Symlink {
		t.Errorf("%d entries, want %d; %v", len(got), len(want), kinds["d"])
	}
	for _, e := range want {
		if _, ok := kinds[e.Name()]; !ok {
			t.Errorf("%q is missing", e.Name())
		}
	}
	if _, err := OSFS().ReadDir(filepath.Join(dir, "l")); !absent(err) {
		t.Errorf("a dangling link: %v", err)
	}
}

// Directories of the home directory may be made; what must not be in one is known
// by its path.
func TestMissingHomeDirectories(t *testing.T) {
	f := newFake(user, "/home/u/w/x")
	p := mustResolveFake(t, f, allowing("~"))
	answers(t, p, "create /home/u/.ssh ok", "create /home/u/.ssh/known_hosts ok", "create /home/u/.ssh/authorized_keys EPERM", "create /home/u/.SSH/Config EPERM",
		"create /home/u/.config/systemd/system ok", "create /home/u/.config/systemd/user/x.service EPERM", "create /home/u/.config/fish EPERM", "create /home/u/.config/fisher ok")
	if len(p.Kept) == 0 {
		t.Error("nothing is kept")
	}
	if p := mustResolveFake(t, f, allowing(".")); len(p.Kept) != 0 {
		t.Errorf("%d names are kept in a home directory that is read-only", len(p.Kept))
	}
}

// removing takes a directory away once it was searched.
type removing struct {
	FS
	dir      string
	searched bool
}

func (f *removing) Visit(path string) ([]Entry, protected.Identity, error) {
	f.searched = f.searched || path == f.dir
	return f.FS.Visit(path)
}

func (f *removing) Lstat(path string) (Info, error) {
	if f.searched && within(f.dir, path) {
		return Info{}, fs.ErrNotExist
	}
	return f.FS.Lstat(path)
}

// A directory that somebody removes after the search may be made again, but not
// what is protected in it.
func TestRemovedAfterSearch(t *testing.T) {
	f := newFake(user, append(repo("/home/u/w/d/.git"), "/home/u/w/d/.npmrc", "/home/u/w/d/.vscode/x")...)
	p := mustResolveFake(t, f, func(in *Input, c *config.Filesystem) {
		allowing(".")(in, c)
		in.FS = &removing{FS: in.FS, dir: "/home/u/w/d"}
	})
	answers(t, p, "create /home/u/w/d ok")
	if _, ok := p.Standing.Forbids("/home/u/w/d", protected.Identity{}, ".npmrc"); !ok {
		t.Error("the name is free")
	}
}
