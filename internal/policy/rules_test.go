package policy

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

const user = 1000

// The plain cases of the lists.
func TestLists(t *testing.T) {
	tree := []string{"/home/u/w/f", "/home/u/w/h/w/d/x", "/home/u/w/h/s", "/home/u/w/a/b/s", "/home/u/w/x/y", "/etc/x", "/home/u/x"}
	for _, c := range []struct {
		name                                       string
		allowWrite, denyWrite, denyRead, allowRead []string
		want                                       []string
	}{
		{"linux 1, 2", []string{"."}, nil, nil, nil, []string{"create /home/u/w/a/n ok", "write /etc/x EROFS", "write /home/u/x EROFS", "create /home/u/n EROFS"}},
		{"linux 7, by decision", []string{"new"}, nil, nil, nil, []string{"create /home/u/w/new ok", "create /home/u/w/other EROFS"}},
		{"linux 20", []string{"."}, []string{"a/b/s"}, nil, nil, []string{"remove /home/u/w/a EBUSY", "remove /home/u/w/a/b EBUSY", "remove /home/u/w/a/b/s EBUSY", "remove /home/u/w/x ok"}},
		{"linux 40, by decision", []string{"."}, nil, []string{"nope"}, nil, []string{"create /home/u/w/nope EPERM", "create /home/u/w/nopes ok"}},
		{"linux 48", []string{"h/w"}, nil, []string{"h"}, nil, []string{"read /home/u/w/h/w/d/x ok", "write /home/u/w/h/w/d/x ok", "read /home/u/w/h/s ENOENT", "list /home/u/w/h ok"}},
		{"linux 51", []string{"."}, []string{"."}, []string{"h", "f"}, nil, []string{"read /home/u/w/a/b/s ok", "write /home/u/w/a/b/s EROFS", "read /home/u/w/h/s ENOENT", "read /home/u/w/f EACCES"}},
		{"linux 52", []string{"h/w"}, []string{"h/w/d"}, []string{"h"}, nil, []string{"create /home/u/w/h/w/n ok", "create /home/u/w/h/w/d/n EROFS", "from /home/u/w/h/w/d EBUSY"}},
		{"linux 57", []string{"."}, nil, []string{"a/b/s"}, nil, []string{"from /home/u/w/a EBUSY", "from /home/u/w/a/b EBUSY", "to /home/u/w/a/b/s EBUSY"}},
		{"config 50", []string{"x"}, nil, nil, nil, []string{"create /home/u/w/x/n ok"}},
		{"config 62", []string{"."}, []string{".env"}, nil, nil, []string{"create /home/u/w/.env EPERM"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
				fs.AllowWrite, fs.DenyWrite, fs.DenyRead, fs.AllowRead = entries(c.allowWrite...), entries(c.denyWrite...), entries(c.denyRead...), entries(c.allowRead...)
			})
			answers(t, p, c.want...)
		})
	}
}

// What an entry without a home, or of an unusual spelling, means. config 60, cf-10
func TestSpellings(t *testing.T) {
	tree := []string{"/home/u/w/a/f", "/home/u/w/~/f", "/home/u/w/~x/f", "/home/u/b/f", "/home/u/w/[WIP] y/keep/f", "/home/u/w/back\\slash/f"}
	for _, c := range []struct{ entry, writable, not string }{
		{"a//./", "/home/u/w/a/f", "/home/u/b/f"}, {"../b", "/home/u/b/f", "/home/u/w/a/f"}, {"./x/../a/", "/home/u/w/a/f", "/home/u/b/f"}, // fs-18
		{"~/b/.", "/home/u/b/f", "/home/u/w/a/f"}, {"~x", "/home/u/w/~x/f", "/home/u/b/f"}, {"./~", "/home/u/w/~/f", "/home/u/b/f"},
		{"/home//u/b/**", "/home/u/b/f", "/home/u/w/a/f"}, {"[WIP] y/keep", "/home/u/w/[WIP] y/keep/f", "/home/u/w/a/f"}, {"back\\slash", "/home/u/w/back\\slash/f", "/home/u/w/a/f"},
	} {
		p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(c.entry) })
		answers(t, p, "write "+c.writable+" ok", "write "+c.not+" EROFS")
	}
	p := mustResolveFake(t, newFake(user, tree...), func(in *Input, fs *config.Filesystem) {
		in.Home = ""
		fs.AllowWrite, fs.DenyRead = entries("~", "~/b", "~/**"), entries("~")
	})
	answers(t, p, "write /home/u/b/f EROFS", "write /etc EROFS", "read /home/u/b/f ok", "create /x EROFS")
	if !strings.Contains(warnings(p), "home directory is not known") {
		t.Errorf("warnings %q", warnings(p))
	}
}

// A working directory whose name looks like a pattern is a name.
func TestPatternCharactersInTheWorkingDirectory(t *testing.T) {
	f := newFake(user, "/home/u/[ab]/x.pem", "/home/u/a/x.pem", "/home/u/[ab]/sub/f")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Cwd = "/home/u/[ab]"
		fs.DenyRead, fs.AllowWrite = entries("*.pem"), entries("sub")
	})
	answers(t, p, "read /home/u/[ab]/x.pem EACCES", "read /home/u/a/x.pem ok", "write /home/u/[ab]/sub/f ok")
}

// A pattern that is also a name keeps its ".." from reaching past itself.
func TestDotDotAfterPattern(t *testing.T) {
	f := newFake(user, "/home/u/*/", "/home/u/.ssh/id", "/home/u/w/")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries("/home/u/*/../.ssh") })
	answers(t, p, "write /home/u/.ssh/id EROFS")
}

// linux 71, config 51, 52: a pattern is also the names that exist.
func TestPatternIsAlsoName(t *testing.T) {
	tree := []string{"/home/u/w/[W] p/.env", "/home/u/w/[W] p/a/b/.env", "/home/u/w/W p/.env"}
	p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead = entries("[W] p/.env", "[W] p/**/b/.env")
	})
	answers(t, p, "read /home/u/w/[W] p/.env EACCES", "read /home/u/w/[W] p/a/b/.env EACCES")
	p = mustResolveFake(t, newFake(user, "/home/u/w/x"), func(_ *Input, fs *config.Filesystem) { fs.DenyRead = entries("[W] p/keep") })
	answers(t, p, "read /home/u/w/x ok", "create /home/u/w/[W] p EROFS")
	// linux 13: a link of that name is no reading of an allow, but one of a deny.
	p = mustResolveFake(t, newFake(user, "/home/u/w/[x] d -> /home/u/t", "/home/u/t/f"), func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead = entries("[x] d"), entries("[x] d")
	})
	answers(t, p, "write /home/u/t/f EROFS", "read /home/u/t/f ENOENT")
}

// linux 16, 17, 18, 26, 27; fs-34: names that do not exist.
func TestAbsentNames(t *testing.T) {
	f := newFake(user, "/home/u/w/f", "mode=0555 /home/u/w/m/", "uid=0 /home/u/w/other/dir/", "/home/u/w/h/")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite = entries(".")
		fs.DenyRead = entries("h")
		fs.DenyWrite = entries("absent", "deep/er/x", "deep/y", "f/x", "m/x", "other/dir/x", "h/x", "/etc/x", "/nonexistent/x")
	})
	answers(t, p, "create /home/u/w/absent EPERM", "to /home/u/w/absent EPERM", "create /home/u/w/deep EPERM", "create /home/u/w/f/x ENOTDIR",
		"write /home/u/w/f EROFS", "remove /home/u/w/f EBUSY", "create /home/u/w/m/x EPERM", "from /home/u/w/m EBUSY", "from /home/u/w/other EBUSY",
		"create /home/u/w/h/x ok", "write /home/u/w/absent EPERM")
	if slices.ContainsFunc(p.Absent, func(a Absent) bool { return !within("/home/u/w", a.Parent) || within("/home/u/w/h", a.Parent) }) {
		t.Errorf("names that nobody could create are listed: %+v", p.Absent)
	}
	// linux 22: nothing to do outside the write roots.
	if len(p.Places) == 0 || slices.ContainsFunc(p.Places, func(pl Place) bool { return pl.Path == "/etc" }) {
		t.Errorf("places %+v", p.Places)
	}
}

// Two names that differ in case only are two names.
func TestAbsentNamesOfDifferentCase(t *testing.T) {
	f := newFake(user, "/home/u/w/")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("."), entries("Foo", "foo")
	})
	answers(t, p, "create /home/u/w/Foo EPERM", "create /home/u/w/foo EPERM", "create /home/u/w/FOO ok", "create /home/u/w/.BASHRC EPERM", "create /home/u/w/.\u212Abashrc ok")
}

// Missing entries of allowWrite can be created; not where a deny is concerned.
func TestCreatable(t *testing.T) {
	f := newFake(user, "/home/u/w/", "/home/u/h/", "/home/u/d/", "/home/u/w/file")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite = entries("a/b/c", "~/h/x", "~/d/x", "eq", "up/x", "down", "file/x", "w/../twice", "twice")
		fs.DenyRead = entries("~/h")
		fs.DenyWrite = entries("~/d", "eq", "up", "down/.git/hooks")
	})
	answers(t, p, "create /home/u/w/a ok", "create /home/u/w/a/b ok", "create /home/u/w/a/b/c ok", "create /home/u/w/a/b/c/d ok", "create /home/u/w/a/n EROFS", "create /home/u/w/ab EROFS",
		"create /home/u/h/x EROFS", "create /home/u/d/x EROFS", "create /home/u/w/eq EROFS", "create /home/u/w/up EROFS", "create /home/u/w/down EROFS", "create /home/u/w/twice ok")
	said := warnings(p)
	for _, entry := range []string{`"~/h/x"`, `"~/d/x"`, `"eq"`, `"up/x"`, `"down"`, `"file/x"`} {
		if !strings.Contains(said, entry) {
			t.Errorf("nothing said about %s in\n%s", entry, said)
		}
	}
	if strings.Contains(said, "a/b/c") || strings.Contains(said, "twice") {
		t.Errorf("said too much:\n%s", said)
	}
}

// linux 21, 35; fs-19: the entry that a deny leaves without effect is named.
func TestCoveredRootsAreNamed(t *testing.T) {
	f := newFake(user, "/home/u/w/a/b/f")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("a/b"), entries("a")
	})
	answers(t, p, "write /home/u/w/a/b/f EROFS")
	if said := warnings(p); !strings.Contains(said, `"a/b"`) || !strings.Contains(said, `filesystem.denyWrite[0] "a"`) {
		t.Errorf("said %q", said)
	}
}

// rd-06, rd-07, rd-08, rd-09, config 64
func TestNestedReadRules(t *testing.T) {
	f := newFake(user, "/home/u/w/f", "/home/u/w/.env", "/home/u/w/sub/.env", "/home/u/other/s", "/home/u/.aws/credentials", "/home/u/.aws/config", "/home/u/w/sub/deep/x")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries("."), entries("~/", "~/.aws/credentials", "**/.env"), entries("./", "~/.aws")
	})
	answers(t, p, "read /home/u/w/f ok", "create /home/u/w/n ok", "read /home/u/other/s ENOENT", "list /home/u ok", "list /home/u/other ENOENT",
		"read /home/u/.aws/credentials EACCES", "read /home/u/.aws/config ok", "write /home/u/.aws/config EROFS", "read /home/u/w/.env EACCES", "read /home/u/w/sub/.env EACCES",
		"create /home/u/new EROFS", "remove /home/u/.aws EROFS")
	p = mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Cwd = "/home/u/w/sub"
		fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries("."), entries(".."), entries(".")
	})
	answers(t, p, "read /home/u/w/sub/deep/x ok", "read /home/u/w/f ENOENT", "list /home/u/w ok")
}

// Beneath something hidden only what is shown again is a place.
func TestNothingInHiddenDirectories(t *testing.T) {
	f := newFake(user, "/home/u/w/h/f", "/home/u/w/h/.bashrc", "/home/u/w/h/d/e/f", "/home/u/w/h/c/k", "/home/u/w/l -> h/d/e/f")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead, fs.DenyWrite, fs.AllowRead = entries("."), entries("h", "h/f", "h/d"), entries("h/f", "h/d/e"), entries("h/d/e", "h/c/k")
		in.Config.Credentials = &config.Credentials{Files: []config.CredentialFile{{Path: "h/c", Mode: "deny"}}}
	})
	var paths []string
	for _, pl := range p.Places {
		paths = append(paths, pl.Path)
	}
	if want := []string{"/", "/home/u/w", "/home/u/w/h", "/home/u/w/h/d/e"}; !slices.Equal(paths, want) {
		t.Errorf("places %q", paths)
	}
	answers(t, p, "read /home/u/w/h/f ENOENT", "list /home/u/w/h/d ok", "read /home/u/w/h/d/e/f ok", "write /home/u/w/h/d/e/f EROFS", "read /home/u/w/h/c/k ENOENT",
		"create /home/u/w/h/n ok", "read /home/u/w/l ok", "remove /home/u/w/h/d/e EBUSY")
}

// linux 59, 60, 63, config 66: nothing shows a credential but srt's own files.
func TestOwnFilesStayReadable(t *testing.T) {
	f := newFake(user, "/home/u/ca/bundle.pem", "/home/u/ca/key.pem", "/home/u/w/")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Config.Credentials = &config.Credentials{Files: []config.CredentialFile{{Path: "~/ca", Mode: "deny"}, {Path: "~/ca/*.pem", Mode: "deny"}, {Path: "~/w/m", Mode: "mask"}}}
		in.Readable = []string{"/home/u/ca/bundle.pem", "/home/u/missing"}
		fs.AllowRead, fs.AllowWrite = entries("~/ca"), entries("~/ca")
	})
	answers(t, p, "read /home/u/ca/bundle.pem ok", "write /home/u/ca/bundle.pem EROFS", "read /home/u/ca/key.pem ENOENT")
	if len(p.MaskFiles) != 0 {
		t.Errorf("mask files %q", p.MaskFiles)
	}
	f = newFake(user, "/home/u/w/m -> t", "/home/u/w/t")
	p = mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Config.Credentials = &config.Credentials{Files: []config.CredentialFile{{Path: "m", Mode: "mask"}}}
		fs.Disabled = true
	})
	if !slices.Equal(p.MaskFiles, []string{"/home/u/w/t"}) {
		t.Errorf("mask files %q", p.MaskFiles)
	}
}

// cli 59, linux 117: conveniences do not open what is denied.
func TestConveniences(t *testing.T) {
	for _, c := range []struct {
		deny, allow, allowWrite string
		write                   string
	}{
		{"", "", "", "ok"}, {"~", "", "", "EROFS"}, {"~/.npm/_logs", "", "", "EROFS"}, {"~/.n*", "", "", "EROFS"},
		{"~/.npm", "~/.npm/_logs", "", "ok"}, {"~", "", "~/.npm/_logs", "ok"},
	} {
		f := newFake(user, "/home/u/w/", "/home/u/.npm/_logs/f", "uid=0 /tmp/claude/f", "/home/u/.claude/debug -> /etc", "/etc/f")
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
			for list, e := range map[*[]config.PathEntry]string{&fs.DenyRead: c.deny, &fs.AllowRead: c.allow, &fs.AllowWrite: c.allowWrite} {
				if e != "" {
					*list = entries(e)
				}
			}
		})
		if d := p.Decide(Create, "/home/u/.npm/_logs/n"); d.Errno != c.write && (c.write != "ok" || !d.Allow) {
			t.Errorf("%+v: %+v", c, d)
		}
		answers(t, p, "write /tmp/claude/f EROFS", "write /etc/f EROFS")
		for _, pl := range p.Places {
			if pl.View == Hidden && pl.Scratch {
				t.Errorf("%+v: scratch %s", c, pl.Path)
			}
		}
	}
}

// linux 53, rd-13: what stands in for an entry that cannot be looked at.
func TestStandIn(t *testing.T) {
	f := newFake(user, "/home/u/w/p/q/s", "mode=0 /home/u/w/p/q/", "mode=0700 uid=0 /root/.ssh/id", "mode=0700 uid=0 /root/", "/home/u/w/ok")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries(".", "p/q/w"), entries("p/q/s", "/root/.ssh", "p/q/*.pem"), entries("p/q/s")
		fs.DenyWrite = entries("/root/run/sock", "p/q/x")
	})
	answers(t, p, "list /home/u/w/p/q ok", "read /home/u/w/p/q/s ENOENT", "list /root ok", "read /root/.ssh/id ENOENT", "write /home/u/w/ok ok", "from /home/u/w/p EBUSY")
	if s := p.StateAt("/home/u/w/p/q"); s.View != Hidden || s.Write || s.Scratch {
		t.Errorf("%+v", s)
	}
	f = newFake(user, "/home/u/w/x")
	f.nodes["/vol"] = &fakeNode{kind: Dir, fail: syscall.EACCES}
	_, err := resolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.DenyRead = entries("/vol/s") })
	if e := new(Error); !errors.As(err, &e) || e.Code != "unlistable_root" {
		t.Errorf("only the root directory is left to hide: %v", err)
	}
}

// An error that is gone at the second try is none.
func TestPassingErrors(t *testing.T) {
	f := &flaky{fakeFS: newFake(user, "/home/u/w/s")}
	p, err := Resolve(t.Context(), Input{Config: &config.Config{Filesystem: config.Filesystem{DenyRead: entries("s")}}, Cwd: "/home/u/w", UID: user, FS: f})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.StateAt("/home/u/w/s"); s.View != Masked || s.Path != "/home/u/w/s" {
		t.Errorf("%+v", s)
	}
}

type flaky struct {
	*fakeFS
	failed bool
}

func (f *flaky) Lstat(p string) (Info, error) {
	if p == "/home/u/w/s" && !f.failed {
		f.failed = true
		return Info{}, syscall.EIO
	}
	return f.fakeFS.Lstat(p)
}

// linux 54, 55, 56: the root directory.
func TestRootDirectory(t *testing.T) {
	tree := []string{"uid=0 /usr/bin/sh", "uid=0 /usr/lib/x", "uid=0 /bin -> usr/bin", "uid=0 /lib -> usr/lib", "uid=0 /lib64 -> usr/lib", "uid=0 /proc/1/x", "uid=0 /dev/null", "uid=0 /sys/x", "uid=0 /etc/passwd", "/home/u/w/f", "/home/u/x", "/home/u/w/root -> /", "uid=0 /file"}
	p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries("."), entries("/"), entries(".", "/usr", "/lib*", "/bin")
	})
	answers(t, p, "read /bin/sh ok", "exec /usr/bin/sh ok", "read /lib/x ok", "read /home/u/w/f ok", "read /home/u/x ENOENT", "read /etc/passwd ENOENT", "read /file EACCES", "read /proc/1/x ok", "read /sys/x ok", "read /dev/null ok")
	p = mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) { fs.DenyRead, fs.AllowRead = entries("/**"), entries("/") })
	answers(t, p, "read /etc/passwd ok")
	p = mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead, fs.AllowRead = entries("/"), entries("/bin", "/lib") // links that only root can have made
	})
	answers(t, p, "read /bin/sh ok", "read /usr/lib/x ok", "read /etc/passwd ENOENT")
	p = mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) { fs.DenyRead = entries("root") })
	answers(t, p, "list /home/u/w ok", "read /home/u/w/f ENOENT", "read /etc/passwd ok")

	f := newFake(user, tree...)
	f.nodes["/"].mode = 0o711
	_, err := resolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.DenyRead = entries("/") })
	if e := new(Error); !errors.As(err, &e) || e.Code != "unlistable_root" {
		t.Errorf("%v", err)
	}
}

// Allowing devices says what holds anyway; a deny there is void and says so.
func TestDeviceEntries(t *testing.T) {
	f := newFake(user, "/home/u/w/x", "uid=0 /dev/stdout -> /proc/self/fd/1", "uid=0 /proc/self -> 1", "/proc/1/fd/1 -> pipe:[1]", "/dev/shm/x")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyRead, fs.DenyWrite = entries("/dev/stdout", "/dev/**", "/proc/self/x"), entries("/dev/shm", "/proc"), entries("/dev", "/dev/shm/x")
	})
	for _, w := range p.Warnings {
		if !strings.HasPrefix(w.Setting, "filesystem.deny") || !strings.HasPrefix(w.Message, "has no effect") {
			t.Errorf("%v", w)
		}
	}
	if len(p.Warnings) != 4 || len(p.Places) != 1 || len(p.Creatable) > 0 || len(p.Absent) > 0 {
		t.Errorf("%s %q %+v", describe(p), p.Warnings, p.Creatable)
	}
}

// What no sandbox has below its /dev cannot be allowed, by whatever name, and that is said.
func TestDeviceEntriesWithoutEffect(t *testing.T) {
	for name, said := range map[string]bool{
		"/dev/shm/x": true, "/dev/shm/x/": true, "/dev/shm/none": true, "/dev/kvm": true, "/opt/shared": true,
		"/dev": false, "/dev/shm": false, "/dev/null": false, "/dev/tty": false, "/dev/fd/1": false, "/dev/pts/0": false, "/dev/console": false, "/proc/self/x": false,
	} {
		f := newFake(user, "/home/u/w/x", "uid=0 /opt/shared -> /dev/shm/x", "/dev/shm/x/y", "/dev/kvm", "/dev/null", "/dev/tty", "/dev/console")
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(name) })
		want := ""
		if said {
			want = `filesystem.allowWrite[0] "` + name + `": has no effect: every sandbox has a /dev and a /proc of its own`
		}
		if got := warnings(p); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// linux 49: what an allow for the same place undoes hides nothing, which is said.
func TestUndoneReadDenies(t *testing.T) {
	for _, c := range []struct {
		deny, read, write []config.PathEntry
		want              string
	}{
		{entries("v"), nil, entries(".", "v"), `filesystem.denyRead[0] "v": has no effect: filesystem.allowWrite[1] "v" shows the same place again`},
		{entries("v/**"), entries("v"), nil, `filesystem.denyRead[0] "v/**": has no effect: filesystem.allowRead[0] "v" shows the same place again`},
		{entries("v/k"), entries("v/k"), nil, `filesystem.denyRead[0] "v/k": has no effect: filesystem.allowRead[0] "v/k" shows the same place again`},
		{entries("/"), entries("/"), nil, `filesystem.denyRead[0] "/": has no effect: filesystem.allowRead[0] "/" shows the same place again`},
		{entries("/"), entries("/bin", "v"), nil, ""},
		{entries("v", "**/k"), entries("v/k"), entries("."), ""},
		{entries("v"), entries("v/k"), entries("."), ""},
	} {
		p := mustResolveFake(t, newFake(user, "/home/u/w/v/k", "/bin/sh"), func(_ *Input, fs *config.Filesystem) {
			fs.DenyRead, fs.AllowRead, fs.AllowWrite = c.deny, c.read, c.write
		})
		if got := warnings(p); got != c.want {
			t.Errorf("deny %v, read %v, write %v: %q", c.deny, c.read, c.write, got)
		}
	}
}

// linux 34, 35: a writable root directory.
func TestWritableRootDirectory(t *testing.T) {
	f := newFake(user, "/home/u/w/a/k", "/sys/x", "/dev/null", "/proc/x", "/opt/f", "/x/.git/HEAD")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("/", "/home/u/w"), entries("a/k", "/dev/null")
	})
	answers(t, p, "write /home/u/w/a/k EROFS", "remove /home/u/w/a EBUSY", "remove /home/u EBUSY", "remove /home EBUSY", "create /new ok", "write /opt/f ok", "write /sys/x EROFS", "create /.bashrc EPERM", "write /dev/null ok")
	for _, pl := range p.Places {
		if fresh(pl.Path) || within("/sys", pl.Path) {
			t.Errorf("%s must not be covered", pl.Path)
		}
	}
	if s := p.StateAt("/home/u"); s.Path != "/home" || !s.Write {
		t.Errorf("the top-level directory is no place of its own: %+v", s)
	}
	if slices.ContainsFunc(p.Pins, func(pin Pin) bool { return pin.Path == "/home" }) || !slices.ContainsFunc(p.Pins, func(pin Pin) bool { return pin.Path == "/home/u" }) {
		t.Errorf("pins %+v", p.Pins)
	}
}

// linux 58: the drop-ins of ssh.
func TestSSHDropIns(t *testing.T) {
	f := newFake(user, "uid=0 /etc/ssh/ssh_config.d/x.conf", "uid=0 /etc/ssh/ssh_config", "/home/u/w/")
	for allow, want := range map[string]string{"/etc/ssh": "ENOENT", "/etc/ssh/ssh_config.d": "ok"} {
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowRead = entries(allow) })
		answers(t, p, "read /etc/ssh/ssh_config.d/x.conf "+want, "read /etc/ssh/ssh_config ok")
	}
}

// linux 41, rd-19
func TestSpecialFiles(t *testing.T) {
	f := newFake(user, "/home/u/w/x")
	f.put("/home/u/w/pipe", &fakeNode{kind: Other, uid: user})
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite, fs.DenyRead = entries("."), entries("pipe") })
	answers(t, p, "read /home/u/w/pipe EACCES", "write /home/u/w/pipe EACCES", "remove /home/u/w/pipe EBUSY")
}
