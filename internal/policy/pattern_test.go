package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// denied lists the places that a policy hides or masks, below /home/u.
func denied(p *Policy) []string {
	var all []string
	for _, pl := range p.Places {
		if pl.View != Host {
			all = append(all, strings.TrimPrefix(pl.Path, "/home/u/"))
		}
	}
	return all
}

func TestDenyPatterns(t *testing.T) {
	tree := []string{
		"/home/u/w/.env", "/home/u/w/a/.env", "/home/u/w/a/b/.env", "/home/u/w/a/my.env", "/home/u/w/keys/x.pem", "/home/u/w/keys/sub/y.pem",
		"/home/u/w/keys/l.pem -> ../../ext/e.pem", "/home/u/w/keys/gone.pem -> missing", "/home/u/w/keys/lnk -> ../../ext", "/home/u/ext/e.pem", "/home/u/ext/deep/f.pem", "/home/u/ext/n",
		"/home/u/w/a/up -> ..", "/home/u/w/a/top -> /home/u", "/home/u/w/build/x/o", "/home/u/w/c/build/", "/home/u/w/d/build", "/home/u/w/e/build -> ../c", "/home/u/w/lib/lbuild -> /home/u/w/build",
		"/home/u/w/[user-id]/x", "/home/u/w/u/x", "/home/u/w/bx", "/home/u/w/dx", "/home/u/w/*", "/home/u/w/-/f", "/home/u/w/[]/f", "/home/u/w/certs/a1.pem", "/home/u/w/certs/a12.pem",
	}
	for _, c := range []struct {
		name, entry string
		want        []string
	}{
		{"linux 64, rd-10", "**/.env", []string{"w/.env", "w/a/.env", "w/a/b/.env"}},
		{"linux 65, 66", "keys/*.pem", []string{"ext/e.pem", "w/keys/x.pem"}},
		{"linux 65, 67, rd-11", "keys/**/*.pem", []string{"ext/deep/f.pem", "ext/e.pem", "w/keys/sub/y.pem", "w/keys/x.pem"}},
		{"linux 68, a link to a directory counts", "**/build/**", []string{"w/build", "w/c"}},
		{"linux 68, without the subtree", "**/build", []string{"w/build", "w/c", "w/c/build", "w/d/build"}},
		{"linux 69", "a/**", []string{"w/a"}},
		{"linux 73, text", "[user-id]/x", []string{"w/[user-id]/x"}},
		{"linux 73, range", "[a-c]x", []string{"w/bx"}},
		{"linux 73, star", "[*]", []string{"w/*"}},
		{"linux 73, dash", "[-a]/f", []string{"w/-/f"}},
		{"linux 73, empty", "[]/f", []string{"w/[]/f"}},
		{"linux 74", "***/y.pem", []string{"w/keys/sub/y.pem"}},
		{"rd-10, set and one character", "certs/?[0-9].pem", []string{"w/certs/a1.pem"}},
		{"config 57", "**/[user-id]/*", []string{"w/[user-id]/x"}},
		{"a slash at the end matches nothing", "b*/", nil},
		{"outside the working directory", "../ext/*.pem", []string{"ext/e.pem"}},
		{"of the home directory", "~/ext/*", []string{"ext/deep", "ext/e.pem", "ext/n"}},
		{"below a directory that is not there", "gone/**/*.pem", nil},
		{"below a file", "bx/*", nil},
	} {
		p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
			fs.AllowWrite, fs.DenyRead = entries("."), entries(c.entry)
		})
		got := denied(p)
		if c.name == "linux 68, without the subtree" {
			got = append(got, "w/c/build") // hidden with w/c, which the link names
			slices.Sort(got)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q hides %q, want %q", c.name, c.entry, got, c.want)
		}
	}
}

// linux 72, config 54: a literal entry is no pattern, even with "/**" at its end.
func TestLiteralEntries(t *testing.T) {
	f := newFake(user, "/home/u/w/*.env", "/home/u/w/a.env", "/home/u/w/d/**/f", "/home/u/w/d/g", "/home/u/w/x.d/c", "/home/u/w/*.d/b")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead = []config.PathEntry{{Path: "/home/u/w/*.env", Literal: true}, {Path: "d/**", Literal: true}}
		fs.AllowWrite = []config.PathEntry{{Path: "*.d", Literal: true}} // fs-25
	})
	if got := denied(p); !slices.Equal(got, []string{"w/*.env", "w/d/**"}) {
		t.Errorf("%q", got)
	}
	answers(t, p, "write /home/u/w/*.d/b ok", "write /home/u/w/x.d/c EROFS")
}

// linux 76: beneath a "/**" match everything that exists is a match itself.
func TestCarveOutUnderSubtreePattern(t *testing.T) {
	f := newFake(user, "/home/u/w/build/x/o", "/home/u/w/build/x/d/p", "/home/u/w/build/x/l -> ../../t", "/home/u/w/t", "/home/u/w/build/y/o", "/home/u/w/other")
	for _, list := range []string{"allowRead", "allowWrite"} {
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
			fs.DenyRead = entries("**/build/**")
			if list == "allowRead" {
				fs.AllowRead = entries("build/x")
			} else {
				fs.AllowWrite = entries("build/x")
			}
		})
		answers(t, p, "read /home/u/w/build/x/o EACCES", "list /home/u/w/build/x ok", "list /home/u/w/build/x/d ok", "read /home/u/w/build/x/d/p ENOENT", "read /home/u/w/build/y/o ENOENT",
			"read /home/u/w/t EACCES", "read /home/u/w/other ok", "read /home/u/w/build/x/later ok")
	}
	// The literal form hides the directory, and shows x again.
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead, fs.AllowRead = entries("build/**"), entries("build/x")
	})
	answers(t, p, "read /home/u/w/build/x/o ok", "read /home/u/w/build/y/o ENOENT")
}

// A match inside a hidden match counts where something is shown again between.
func TestMatchInsideShownMatch(t *testing.T) {
	f := newFake(user, "/home/u/w/secrets/pub/secret.txt", "/home/u/w/secrets/pub/open", "/home/u/w/secrets/x")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead, fs.AllowRead = entries("**/secret*"), entries("secrets/pub")
	})
	answers(t, p, "read /home/u/w/secrets/pub/secret.txt EACCES", "read /home/u/w/secrets/pub/open ok", "read /home/u/w/secrets/x ENOENT")
}

// A file deny yields to an allowRead pattern that matched the very file.
func TestAllowPattern(t *testing.T) {
	f := newFake(user, "/home/u/w/a.env", "/home/u/w/b.env", "/home/u/w/l.env -> b.env", "/home/u/w/d/x/f", "/home/u/w/d/x.f", "/home/u/w/d/lnk -> x")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead, fs.AllowRead = entries("*.env", "d"), entries("a*", "l.*", "d/**/x/**", "d/l*")
	})
	answers(t, p, "read /home/u/w/a.env ok", "read /home/u/w/b.env EACCES", "read /home/u/w/d/x/f ok", "read /home/u/w/d/x.f ENOENT")
}

// linux 75, rd-14: what cannot be searched is hidden for good.
func TestUnlistableDirectory(t *testing.T) {
	f := newFake(user, "mode=0 /home/u/w/l/", "/home/u/w/l/sub/x", "/home/u/w/a/.env", "mode=0300 /home/u/w/x/", "mode=0300 uid=0 /srv/p/", "/srv/p/q/.env")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.AllowRead, fs.DenyRead = entries(".", "l/sub"), entries("l"), entries("**/.env", "/srv/p/*/.env", "l/sub/*.pem")
	})
	if got := denied(p); !slices.Equal(got, []string{"w/a/.env", "w/l", "w/x", "/srv/p"}) {
		t.Errorf("%q", got)
	}
	answers(t, p, "read /home/u/w/l/sub/x ENOENT", "create /home/u/w/l/n EROFS", "write /home/u/w/l EROFS")
}

// What matches behind a link stays hidden when the way there was closed: the
// command may open it again.
func TestLinkBehindClosedDirectory(t *testing.T) {
	f := newFake(user, "mode=0 /home/u/o/d/", "/home/u/o/d/sub/.env", "/home/u/w/l -> /home/u/o/d/sub")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead = entries(".", "/home/u/o"), entries("**/.env")
	})
	if got := denied(p); !slices.Equal(got, []string{"o/d"}) {
		t.Errorf("hidden: %q", got)
	}
}

// linux 28: patterns of denyWrite cover what exists, links and all.
func TestWriteDenyPatterns(t *testing.T) {
	f := newFake(user, "/home/u/w/keys/a.pem", "/home/u/w/keys/l.pem -> ../real", "/home/u/w/real", "/home/u/w/gen/d/f", "/home/u/w/[x].k")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("."), entries("keys/*.pem", "gen*/**", "[x].k")
	})
	answers(t, p, "write /home/u/w/keys/a.pem EROFS", "remove /home/u/w/keys/l.pem EBUSY", "write /home/u/w/real EROFS", "create /home/u/w/keys/b.pem ok", "create /home/u/w/gen/d/n EROFS", "from /home/u/w/keys EBUSY", "write /home/u/w/[x].k EROFS")
	if strings.Count(warnings(p), "later") != 3 {
		t.Errorf("said %q", warnings(p))
	}
}

func TestPatternWarnings(t *testing.T) {
	c := config.Default()
	c.Filesystem.AllowWrite = append(entries("src/**", "src/*.ts", "[x] d"), config.PathEntry{Path: "*", Literal: true})
	c.Filesystem.DenyWrite = entries("a", "k/*.pem/**")
	if got := PatternWarnings(c); !slices.Equal(got, []string{"src/*.ts", "[x] d", "k/*.pem/**"}) { // config 55
		t.Errorf("%q", got)
	}
	c.Filesystem.Disabled = true
	if got := PatternWarnings(c); got != nil {
		t.Errorf("%q", got)
	}
}

// linux 78: however many links lead to it, a directory is listed once for each
// place in the pattern.
func TestLinkFarm(t *testing.T) {
	const n = 300
	f := &counting{fakeFS: newFake(user, "/home/u/store/pkg/.env")}
	for i := range n {
		f.put(fmt.Sprintf("/home/u/w/d/l%d", i), &fakeNode{kind: Symlink, target: "/home/u/store", uid: user})
		f.put(fmt.Sprintf("/home/u/store/l%d", i), &fakeNode{kind: Symlink, target: "/home/u/store/pkg", uid: user})
		f.put(fmt.Sprintf("/home/u/store/pkg/l%d", i), &fakeNode{kind: Symlink, target: "..", uid: user})
	}
	p, err := Resolve(t.Context(), Input{Config: &config.Config{Filesystem: config.Filesystem{DenyRead: entries("**/.env", "d/*/*/*.env")}}, Cwd: "/home/u/w", UID: user, FS: f})
	if err != nil {
		t.Fatal(err)
	}
	answers(t, p, "read /home/u/store/pkg/.env EACCES")
	if f.lists > 12 {
		t.Errorf("%d listings", f.lists)
	}
}

type counting struct {
	*fakeFS
	lists int // the searches are small enough to stay in one goroutine
}

func (c *counting) ReadDir(p string) ([]Entry, error) {
	c.lists++
	return c.fakeFS.ReadDir(p)
}
