package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/protected"
)

// Missing names are kept from the directories in which existing ones would have
// been found, and from no others. linux 80, 81, 82
func TestNamesMissingFurtherDown(t *testing.T) {
	tree := []string{"/home/u/w/a/b/c/d/x", "/home/u/w/a/.claude/x", "/home/u/w/node_modules/p/x", "/home/u/w/a/.git/HEAD", "/home/u/w/ro/x", "/home/u/w/a/l -> b"}
	for depth := 1; depth <= 4; depth++ {
		p := mustResolveFake(t, newFake(user, tree...), func(in *Input, fs *config.Filesystem) {
			in.Config.MandatoryDenySearchDepth = depth
			fs.AllowWrite, fs.DenyWrite = entries("."), entries("ro")
		})
		expect := func(kept bool, path string) {
			t.Helper()
			want := map[bool]string{true: " EPERM", false: " ok"}[kept]
			answers(t, p, "create /home/u/w"+path+want, "to /home/u/w"+path+want, "link /home/u/w"+path+want)
		}
		for at, dir := range []string{"", "/a", "/a/b", "/a/b/c", "/a/b/c/d"} {
			root := at == 0
			expect(root || at <= depth-1, dir+"/.NPMrc")
			expect(root || at <= depth-2, dir+"/.vsCode")
			expect(root || at <= depth-2, dir+"/.claude/commands/x")
			expect(false, dir+"/other")
		}
		expect(1 <= depth-2, "/a/.claude/commands")
		expect(1 <= depth-2, "/a/.claude/settings.json")
		expect(1 <= depth-2, "/a/l/../.vscode")
		expect(2 <= depth-2, "/a/l/.vscode")
		expect(false, "/a/.claude/plans")
		expect(false, "/a/settings.json")
		expect(false, "/node_modules/.npmrc")
		expect(false, "/node_modules/p/.npmrc")
		expect(false, "/a/.git/.npmrc")
		answers(t, p, "create /home/u/w/ro/.npmrc EROFS", "create /home/u/w/new/.npmrc ok")
	}
}

// The nearest root counts, and what a root lies in says nothing about it. fs-10
func TestNamesMissingBelowSeveralRoots(t *testing.T) {
	f := newFake(user, "/home/u/p/a/b/c/x", "/home/u/p/a/b/w/q/x", "/srv/r/s/x", "/home/u/tmp/s/x", "/home/u/own/run/s/x")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Cwd, in.ExtraWrite, in.Private = "/home/u/p/a/b/w", []string{"/home/u/tmp", "/home/u/own/run"}, "/home/u/own/run"
		fs.AllowWrite = entries("~/p", "/srv/r", "~/own")
	})
	answers(t, p, "create /home/u/p/a/b/w/q/.vscode EPERM", "create /home/u/p/a/b/c/.npmrc ok", "create /home/u/p/a/b/.npmrc EPERM", "create /srv/r/s/.vscode EPERM",
		"create /home/u/tmp/s/.vscode ok", "create /home/u/own/run/s/.npmrc ok", "create /home/u/own/.npmrc EPERM", "create /home/u/own/run/.vscode ok", "create /srv/.vscode EROFS")
}

// The setting that would allow it is one number lower than the one that refuses.
func TestCureOfNamesMissingFurtherDown(t *testing.T) {
	resolve := func(depth int) *Policy {
		return mustResolveFake(t, newFake(user, "/home/u/w/a/b/c/d/", "/home/u/w/a/.claude/x"), func(in *Input, fs *config.Filesystem) {
			in.Config.MandatoryDenySearchDepth = depth
			fs.AllowWrite = entries(".")
		})
	}
	for _, path := range []string{"/a/.vscode", "/a/b/c/.npmrc", "/a/b/c/.idea", "/a/.claude/settings.json", "/a/b/.claude"} {
		var said int
		d := resolve(6).Decide(Create, "/home/u/w"+path)
		if _, err := fmt.Sscanf(d.Rule.Cure, "set mandatoryDenySearchDepth to %d", &said); err != nil || d.Allow {
			t.Fatalf("%s: %+v", path, d)
		}
		if d := resolve(said).Decide(Create, "/home/u/w"+path); !d.Allow {
			t.Errorf("%s: the cure %d does not help: %+v", path, said, d)
		}
		if d := resolve(said+1).Decide(Create, "/home/u/w"+path); d.Allow {
			t.Errorf("%s: %d would have been enough", path, said+1)
		}
	}
}

// A path that was there stays known when another directory is in its place, and a
// directory when it has another path.
func TestDirectoriesMovedAndReplaced(t *testing.T) {
	tr := newTree(t)
	tr.files("w/sub/x", "w/sub/deep/x", "w/other/x")
	tr.cfg.Filesystem.AllowWrite = entries(".")
	p := tr.resolve()
	at := func(name string) string { return filepath.Join(tr.root, "w", name) }
	must(t, os.Rename(at("sub"), at("moved")))
	must(t, os.Mkdir(at("sub"), 0o755))
	must(t, os.RemoveAll(at("other")))
	must(t, os.Mkdir(at("new"), 0o755)) // may have the inode number of the old one
	tr.expect(p, "create w/sub/.vscode EPERM", "create w/sub/deep/.npmrc ok", "create w/moved/deep/.npmrc EPERM", "create w/new/.vscode ok", "link w/other EPERM", "link w/another ok")
	if (protected.IdentityAt(at("new")) == protected.Identity{}) {
		t.Error("a directory without an identity")
	}
	tr.expect(p, "create w/moved/.vscode EPERM")
}

// The search ends where more directories are found than srt-init should know.
func TestSearchedDirectoriesAreBounded(t *testing.T) {
	s := &scanner{fs: newCachedFS(newFake(user, "/w/a/x", "/w/b/x", "/w/c/x")), depth: 3, most: 3, seen: map[string]visit{}, hits: map[hit]bool{}, listings: map[string][]Entry{}}
	var e *Error
	if err := crawl(t.Context(), []level{{dir: "/w"}}, s.list); !errors.As(err, &e) || e.Code != "deny_scan_failed" {
		t.Errorf("%v", err)
	}
	s.most, s.seen = 4, map[string]visit{}
	if err := crawl(t.Context(), []level{{dir: "/w"}}, s.list); err != nil {
		t.Error(err)
	}
}
