package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// What people write for "and everything beneath" means it in the lists of what may
// be written.
func TestWholeTrees(t *testing.T) {
	tr := newTree(t)
	tr.dirs("w/a/b", "w/c", "w/x*y")
	tr.files("w/a/b/f", "w/a.txt")
	for entry, want := range map[string]string{
		"**": "ok ok", "**/*": "ok ok", "./**/*": "ok ok", "a/**/*": "ok EROFS", "a/**": "ok EROFS",
		"a**/*": "EROFS EROFS", "a/*": "EROFS EROFS", "*": "EROFS EROFS", "a/**/f": "EROFS EROFS",
	} {
		tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries(entry), nil
		p := tr.resolve()
		inA, inC, _ := strings.Cut(want, " ")
		tr.expect(p, "create w/a/b/n "+inA, "create w/c/n "+inC)
		if got := tr.warned(p, entry); got != (inA != "ok") {
			t.Errorf("%q: warned %v", entry, got)
		}
		if got := len(PatternWarnings(tr.cfg)) > 0; got != (inA != "ok") {
			t.Errorf("%q: pattern warning %v", entry, got)
		}
	}
	for _, entry := range []string{"**", "a/**/*"} {
		tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries("."), entries(entry)
		tr.expect(tr.resolve(), "create w/a/n EROFS", "write w/a/b/f EROFS")
	}
	tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = []config.PathEntry{{Path: "**", Literal: true}, {Path: "a/**/*", Literal: true}}, nil
	tr.expect(tr.resolve(), "create w/c/n EROFS", "create w/a/b/n EROFS")
}

func TestWriteRoots(t *testing.T) {
	tr := newTree(t)
	tr.dirs("w/a", "o", "w/[x] d", "w/real")
	tr.files("w/f", "o/x")
	tr.link(tr.path("o"), "w/out")
	tr.link("real", "w/l")
	tr.cfg.Filesystem.AllowWrite = entries("a/**", "f", "new/sub", "a/*.txt", "[x] d", "l", "out")
	p := tr.resolve()
	tr.expect(p,
		"write w/a ok", "create w/a/n ok", "write w/f ok", "remove w/f EROFS", "create w/n EROFS", "write /etc/passwd EROFS", // linux 2, 8, 11
		"create w/real/n EROFS", "create o/n EROFS", "create w/out/n EROFS")
	if s := p.StateAt(tr.path("w/[x] d")); !s.Write { // linux 13, config 51
		t.Errorf("a directory named like a pattern: %+v", s)
	}
	for _, e := range []string{"a/*.txt", "l", "out"} { // linux 9, 12, config 53, 55, 61
		if !tr.warned(p, e) {
			t.Errorf("nothing said about %q: %v", e, p.Warnings)
		}
	}
	if len(p.Creatable) != 1 || p.Creatable[0].First != "new" || p.Creatable[0].Path != tr.path("w/new/sub") {
		t.Errorf("creatable: %+v", p.Creatable)
	}
}

func TestWriteDenies(t *testing.T) {
	tr := newTree(t)
	tr.dirs("w/d", "w/t")
	tr.files("w/k", "w/a/b/c/f", "w/a/g", "w/t/real", "w/file", "w/keys/a.pem")
	tr.link("t/real", "w/link")
	tr.link("nowhere/x", "w/dangling")
	tr.cfg.Filesystem.AllowWrite = entries(".")
	tr.cfg.Filesystem.DenyWrite = entries("k", "d", "absent", "deep/er/x", "file/x", "a/b/c/f", "link", "dangling", "keys/*.pem", "./a//b/../b/c/f")
	p := tr.resolve()
	tr.expect(p,
		"write w/k EROFS", "remove w/k EBUSY", "create w/d/n EROFS", "remove w/d EBUSY", // linux 14, 15
		"create w/absent EPERM", "create w/deep EPERM", "create w/deep/er/x EPERM", // linux 16, 17
		"write w/file EROFS", "remove w/file EBUSY", // linux 18
		"remove w/a EBUSY", "remove w/a/b EBUSY", "remove w/a/b/c EBUSY", "create w/a/b/c/g ok", "write w/a/g ok", "write w/a/b/c/f EROFS", // linux 19
		"write w/link EROFS", "write w/t/real EROFS", "remove w/t EBUSY", "remove w/link EBUSY", // linux 23
		"create w/nowhere EPERM", "remove w/dangling EBUSY", // linux 24
		"write w/keys/a.pem EROFS", "create w/keys/b.pem ok") // linux 28
	if !tr.warned(p, "keys/*.pem") {
		t.Error("linux 28: nothing said about later files")
	}
	want := []string{"w/a", "w/a/b", "w/a/b/c", "w/dangling", "w/keys", "w/link", "w/t"}
	if got := tr.pins(p); !slices.Equal(got, want) {
		t.Errorf("pins %q, want %q", got, want)
	}
}

func TestDenyAboveAllowWins(t *testing.T) {
	for _, c := range []struct{ allow, deny string }{{"a/b", "a"}, {"a", "a"}} { // linux 21, config 63
		tr := newTree(t)
		tr.files("w/a/b/f")
		tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries(c.allow), entries(c.deny)
		tr.expect(tr.resolve(), "write w/a/b/f EROFS", "create w/a/b/n EROFS")
	}
}

// linux 25: a deny that cannot be placed stops the start.
func TestLinkCycleInWriteRoot(t *testing.T) {
	tr := newTree(t)
	tr.link("l2", "w/l1")
	tr.link("l1", "w/l2")
	tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries("."), entries("l1")
	_, err := Resolve(t.Context(), tr.input())
	var e *Error
	if !errors.As(err, &e) || e.Code != "link_cycle" || !strings.Contains(err.Error(), "l1") {
		t.Errorf("%v", err)
	}
	tr.cfg.Filesystem.AllowWrite = entries()
	tr.resolve()
}

func TestReadRules(t *testing.T) {
	tr := newTree(t)
	tr.dirs("x/hid/pub", "x/empty")
	tr.files("w/sec/k", "w/f", "x/hid/pub/p", "x/hid/s", "x/d/.env", "x/d/o", "x/ws/proj/a", "x/ws/lib/a", "x/two/p/a", "x/two/p/s/k")
	tr.link("sec/k", "w/soft")
	tr.cfg.Filesystem.AllowWrite = entries(".", tr.path("x/ws/proj"))
	tr.cfg.Filesystem.DenyRead = entries("sec", "f", "nope", tr.path("x"), tr.path("x/d/.env"), tr.path("x/two/p/s"))
	tr.cfg.Filesystem.AllowRead = entries(tr.path("x/hid/pub"), tr.path("x/d"), tr.path("x/ws"), tr.path("x/two/p"))
	p := tr.resolve()
	tr.expect(p,
		"read w/sec/k ENOENT", "create w/sec/n ok", "remove w/sec EBUSY", "read w/soft ENOENT", // linux 37, 39
		"read w/f EACCES", "write w/f EACCES", "remove w/f EBUSY", // linux 38
		"create w/nope EPERM",                                                    // a denied name holds for the whole run
		"read x/hid/pub/p ok", "create x/hid/pub/n EROFS", "read x/hid/s ENOENT", // linux 42
		"read x/d/.env EACCES", "read x/d/o ok", // linux 43
		"write x/ws/proj/a ok", "read x/ws/lib/a ok", "write x/ws/lib/a EROFS", // linux 50
		"read x/two/p/a ok", "read x/two/p/s/k ENOENT", // linux 45
		"create x/new EROFS") // hidden outside the write roots: refused, not pretended
	if s := p.StateAt(tr.path("w/sec")); !s.Scratch {
		t.Error("a hidden directory inside a write root takes writes")
	}
}

func TestReadEqualPaths(t *testing.T) {
	for _, c := range []struct{ deny, allowRead, allowWrite, denyWrite, read, write string }{
		{"d", "", "d", "", "ok", "ok"}, {"d", "d", "", "", "ok", "EROFS"}, {"d", "", "", "d", "ENOENT", "EROFS"}, // linux 49
		{"d/f", "d/f", "", "", "ok", "EROFS"}, {"d/f", "d", "d", "", "EACCES", "EACCES"}, // linux 44, config 65
	} {
		tr := newTree(t)
		tr.files("w/d/f")
		fsys := &tr.cfg.Filesystem
		fsys.DenyRead = entries(c.deny)
		for _, l := range []struct {
			to *[]config.PathEntry
			e  string
		}{{&fsys.AllowRead, c.allowRead}, {&fsys.AllowWrite, c.allowWrite}, {&fsys.DenyWrite, c.denyWrite}} {
			if l.e != "" {
				*l.to = entries(l.e)
			}
		}
		tr.expect(tr.resolve(), "read w/d/f "+c.read, "write w/d/f "+c.write)
	}
}

// Nothing inside a hidden directory is a place of its own: there is nothing to
// mount on. A carve-out further down is, and the denies above it hold there.
func TestNoPlacesInsideHiddenDirectories(t *testing.T) {
	tr := newTree(t)
	tr.files("w/h/f", "w/h/d/x", "w/h/p/x")
	tr.cfg.Filesystem.AllowWrite = entries(".")
	tr.cfg.Filesystem.DenyRead = entries("h", "h/f")
	tr.cfg.Filesystem.DenyWrite = entries("h/d", "h/p")
	tr.cfg.Filesystem.AllowRead = entries("h/p")
	p := tr.resolve()
	for _, place := range p.Places {
		if beneath(tr.path("w/h"), place.Path) && place.Path != tr.path("w/h/p") {
			t.Errorf("%s is a place inside a hidden directory", place.Path)
		}
	}
	tr.expect(p, "read w/h/f ENOENT", "read w/h/p/x ok", "write w/h/p/x EROFS", "create w/h/n ok")
}

// linux 59, 60, config 66: nothing shows a credential again.
func TestCredentialDenies(t *testing.T) {
	tr := newTree(t)
	tr.files("x/k", "x/s/k", "x/o")
	tr.cfg.Credentials = &config.Credentials{Files: []config.CredentialFile{{Path: tr.path("x/k"), Mode: "deny"}, {Path: tr.path("x/s"), Mode: "deny"}}}
	tr.cfg.Filesystem.AllowRead = entries(tr.path("x/k"), tr.path("x/s/k"))
	tr.cfg.Filesystem.AllowWrite = entries(tr.path("x"), tr.path("x/s"))
	tr.expect(tr.resolve(), "read x/k EACCES", "remove x/k EBUSY", "read x/s/k ENOENT", "create x/n ok", "write x/o ok")
}

func TestPatterns(t *testing.T) {
	tr := newTree(t)
	tr.files("w/.env", "w/a/.env", "w/a/b/.env", "w/a/my.env", "w/keys/x.pem", "w/keys/sub/y.pem", "w/build/x/o", "ext/e.pem", "w/[W] p/.env", "w/*.lit")
	tr.dirs("w/c/build")
	tr.link(tr.path("ext"), "w/keys/lnk")
	tr.link("../..", "w/a/b/up")
	tr.cfg.Filesystem.AllowWrite = entries(".")
	tr.cfg.Filesystem.DenyRead = append(entries("**/.env", "keys/*.pem", "keys/**/*.pem", "**/build/**", "[W] p/.env"), config.PathEntry{Path: tr.path("w/*.lit"), Literal: true})
	p := tr.resolve()
	tr.expect(p, "read w/.env EACCES", "read w/a/.env EACCES", "read w/a/b/.env EACCES", "read w/a/my.env ok", // linux 64
		"read w/keys/x.pem EACCES", "read w/keys/sub/y.pem EACCES", "read ext/e.pem EACCES", // linux 65, 67
		"read w/build/x/o ENOENT", "create w/c/build/n ok", // linux 68
		"read w/*.lit EACCES") // linux 72
	if d := p.Decide(Read, tr.path("w/[W] p/.env")); d.Allow { // linux 71
		t.Error("a name with brackets was not denied")
	}
}

// linux 70, config 56: a deny that would need the whole machine is refused.
func TestUnboundedPattern(t *testing.T) {
	for _, e := range []string{"/**/*.pem", "/opt*/k"} {
		tr := newTree(t)
		tr.cfg.Filesystem.DenyRead = entries(e)
		_, err := Resolve(t.Context(), tr.input())
		var pe *Error
		if !errors.As(err, &pe) || pe.Code != "unbounded_pattern" {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// linux 53, 75, 92: what cannot be looked into is closed for good.
func TestClosedDirectories(t *testing.T) {
	if testutil.RunOrdinary(t) {
		return
	}
	tr := newTree(t)
	tr.files("w/p/q/s", "w/l/sub/x")
	tr.cfg.Filesystem.AllowWrite = entries(".", "l/sub")
	tr.cfg.Filesystem.DenyRead = entries("p/q/s", "**/.env")
	for _, d := range []string{"w/p/q", "w/l"} {
		if err := os.Chmod(tr.path(d), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(tr.path(d), 0o755) })
	}
	p := tr.resolve()
	for _, d := range []string{"w/p/q", "w/l"} {
		if s := p.StateAt(tr.path(d)); s.View != Hidden || s.Path != tr.path(d) {
			t.Errorf("%s: %+v", d, s)
		}
	}
}

func TestMandatoryNames(t *testing.T) {
	tr := newTree(t)
	tr.files("w/.bashrc", "w/a/.bashrc", "w/a/b/.BashRC", "w/a/b/c/.bashrc", "w/a/.vscode/s.json", "w/node_modules/x/.bashrc", "w/.claude/other", "h/.zshrc", "w/a/.git/HEAD", "w/a/b/.git/HEAD", "w/e/.idea/x")
	tr.dirs("w/f/.vscode")
	tr.link("dot/bashrc", "w/sub/.profile")
	tr.cfg.Filesystem.AllowWrite = entries(".", tr.path("h"))
	p := tr.resolve()
	tr.expect(p,
		"write w/.bashrc EROFS", "remove w/.bashrc EBUSY", "create w/.zshrc EPERM", "create w/.mcp.json EPERM", "create w/.vscode EPERM", // linux 79
		"create w/.claude/commands EPERM", "write w/.claude/other ok", "create w/.claude/more ok",
		"write w/a/.bashrc EROFS", "write w/a/b/.BashRC EROFS", "write w/a/b/c/.bashrc ok", // linux 80, 82
		"create w/a/.vscode/n EROFS", "create w/f/.vscode/n EROFS", "create w/e/.idea/n EROFS",
		"write w/node_modules/x/.bashrc ok",
		"create w/a/.git/hooks EPERM", "create w/a/b/.git/hooks ok", // linux 80, 87
		"remove w/sub/.profile EBUSY",                                         // linux 90
		"write h/.zshrc EROFS", "create h/.bashrc EPERM", "create h/other ok") // linux 91
	tr.expect(p, "create w/.ZSHRC EPERM")

	tr.cfg.MandatoryDenySearchDepth = 1 // linux 81
	tr.expect(tr.resolve(), "write w/a/.bashrc ok", "write w/.bashrc EROFS")
	tr.cfg.MandatoryDenySearchDepth = 4
	tr.expect(tr.resolve(), "write w/a/b/c/.bashrc EROFS", "create w/a/b/.git/hooks EPERM")
}

func TestRepositories(t *testing.T) {
	tr := newTree(t)
	tr.files("w/.git/HEAD", "w/.git/config", "w/.git/modules/lib/sub/HEAD", "w/.git/worktrees/x/commondir", "bare/HEAD", "bare/objects/x", "bare/refs/x")
	tr.cfg.Filesystem.AllowWrite = entries(".", tr.path("bare"))
	p := tr.resolve()
	tr.expect(p, "create w/.git/hooks EPERM", "write w/.git/config EROFS", "remove w/.git/config EBUSY", "create w/.git/index ok", "remove w/.git EBUSY", // linux 84
		"create w/.git/commondir EPERM", "create w/.git/config.worktree EPERM", // linux 88
		"create w/.git/modules/lib/sub/hooks EPERM",                                // linux 89
		"write w/.git/worktrees/x/commondir EROFS", "create w/.git/worktrees/y ok", // worktrees can be added
		"create bare/hooks EPERM", "create bare/config EPERM")
	tr.cfg.Filesystem.AllowGitConfig = true
	tr.expect(tr.resolve(), "write w/.git/config ok", "create w/.git/hooks EPERM", "create w/.git/commondir EPERM")
}

// linux 85: without a repository one can be made.
func TestNoRepository(t *testing.T) {
	tr := newTree(t)
	tr.cfg.Filesystem.AllowWrite = entries(".")
	tr.expect(tr.resolve(), "create w/.git ok", "create w/.git/hooks ok")
}

// linux 86: a worktree's pointer is followed to the hooks that git would run.
func TestWorktreePointer(t *testing.T) {
	tr := newTree(t)
	tr.files("main/.git/HEAD", "main/.git/config", "main/.git/worktrees/wt/HEAD", "main/.git/hooks/x")
	for name, text := range map[string]string{"w/.git": "gitdir: " + tr.path("main/.git/worktrees/wt") + "\n", "main/.git/worktrees/wt/commondir": "../..\n"} {
		if err := os.WriteFile(tr.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr.cfg.Filesystem.AllowWrite = entries(".", tr.path("main"))
	tr.expect(tr.resolve(), "write w/.git EROFS", "remove w/.git EBUSY", "write main/.git/hooks/x EROFS", "write main/.git/config EROFS",
		"write main/.git/worktrees/wt/commondir EROFS", "write main/.git/worktrees/wt/HEAD ok")
}

// linux 36, config 62: the files that decide about later runs.
func TestProtectedFiles(t *testing.T) {
	tr := newTree(t)
	tr.files("w/settings.json")
	tr.link("settings.json", "w/s.json")
	tr.protected = []string{tr.path("w/s.json"), tr.path("h/.srt-settings.json")}
	tr.cfg.Filesystem.AllowWrite = entries(".", tr.path("h"))
	tr.expect(tr.resolve(), "write w/settings.json EROFS", "remove w/s.json EBUSY", "create h/.srt-settings.json EPERM")
}

func TestRootEntries(t *testing.T) {
	tr := newTree(t)
	tr.files("w/a/k")
	tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries("/"), entries("a/k")
	p := tr.resolve() // linux 34
	tr.expect(p, "write w/a/k EROFS", "remove w/a EBUSY", "create w/n ok", "write /etc/passwd ok")
	top := "/" + components(tr.root)[0]
	if s := p.StateAt(top); s.Path != top || !s.Write {
		t.Errorf("the top-level directory is no place of its own: %+v", s)
	}
	tr.cfg.Filesystem.AllowWrite, tr.cfg.Filesystem.DenyWrite = entries("/", tr.path("w")), entries("/")
	tr.expect(tr.resolve(), "write w/a/k EROFS") // linux 35

	tr.cfg.Filesystem.DenyRead, tr.cfg.Filesystem.AllowRead = entries("/"), entries("/")
	tr.expect(tr.resolve(), "read w/a/k ok") // linux 56
	tr.cfg.Filesystem.AllowRead = entries(".")
	p = tr.resolve()
	tr.expect(p, "read w/a/k ok")
	for _, place := range p.Places {
		if within("/proc", place.Path) || within("/dev", place.Path) || within("/sys", place.Path) {
			t.Errorf("%s must not be covered", place.Path)
		}
	}
}

func TestDisabled(t *testing.T) { // linux 94
	tr := newTree(t)
	tr.files("w/.bashrc")
	tr.cfg.Filesystem.Disabled = true
	tr.cfg.Filesystem.DenyRead = entries("/**/*.x")
	tr.expect(tr.resolve(), "write w/.bashrc ok", "read w/.bashrc ok")
}

// linux 29: neither the order of entries nor their spelling matters.
func TestOrderDoesNotMatter(t *testing.T) {
	tr := newTree(t)
	tr.files("w/a/b", "w/c/d")
	tr.cfg.Filesystem.AllowWrite = entries(".", "./c")
	tr.cfg.Filesystem.DenyWrite = entries("a/b", "./a//../a/b", "c/d")
	first := tr.resolve()
	slices.Reverse(tr.cfg.Filesystem.AllowWrite)
	slices.Reverse(tr.cfg.Filesystem.DenyWrite)
	second := tr.resolve()
	paths := func(p *Policy) (all []string) {
		for _, place := range p.Places {
			all = append(all, fmt.Sprint(place.Path, place.View, place.Write))
		}
		return all
	}
	if !slices.Equal(paths(first), paths(second)) || !slices.Equal(tr.pins(first), tr.pins(second)) {
		t.Errorf("%q\n%q", paths(first), paths(second))
	}
}

// linux 93: a search that does not end stops the start.
func TestScanTimeout(t *testing.T) {
	tr := newTree(t)
	tr.files("w/a/b/c")
	tr.cfg.Filesystem.AllowWrite = entries(".")
	in := tr.input()
	in.ScanTimeout = time.Nanosecond
	_, err := Resolve(t.Context(), in)
	var e *Error
	if !errors.As(err, &e) || e.Code != "deny_scan_failed" {
		t.Errorf("%v", err)
	}
}

func TestNUL(t *testing.T) {
	tr := newTree(t)
	tr.cfg.Filesystem.DenyRead = entries("a\x00b")
	_, err := Resolve(t.Context(), tr.input())
	var e *Error
	if !errors.As(err, &e) || e.Code != "nul_in_path" {
		t.Errorf("%v", err)
	}
}
