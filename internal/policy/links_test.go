package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// linux 9, 10, config 53, 61; fs-31: a link that a command could have planted
// opens nothing; one that only root can have made does.
func TestLinksInAllowWrite(t *testing.T) {
	for _, c := range []struct {
		name  string
		uid   int
		tree  []string
		allow string
		write string // "ok" or the error of writing /srv/real/f
	}{
		{"the user's link", user, []string{"/home/u/w/l -> /srv/real"}, "l", "EROFS"},
		{"below the user's link", user, []string{"/home/u/w/l -> /srv"}, "l/real", "EROFS"},
		{"root's link in root's directory", user, []string{"uid=0 /opt/l -> /srv/real"}, "/opt/l", "ok"},
		{"root's directories through root's link", user, []string{"uid=0 /opt/l -> /srv"}, "/opt/l/real", "ok"},
		{"the user's link in root's directory", user, []string{"uid=0 /opt/", "/opt/l -> /srv/real"}, "/opt/l", "EROFS"},
		{"in a directory others may write", user, []string{"mode=1777 uid=0 /tmp/", "uid=0 /tmp/l -> /srv/real"}, "/tmp/l", "EROFS"},
		{"in a directory the group may write", user, []string{"mode=0775 uid=0 /opt/", "uid=0 /opt/l -> /srv/real"}, "/opt/l", "EROFS"},
		{"a chain with one bad link", user, []string{"uid=0 /opt/l -> /home/u/m", "/home/u/m -> /srv/real"}, "/opt/l", "EROFS"},
		{"root's command, away from its places", 0, []string{"uid=0 /opt/l -> /srv/real"}, "/opt/l", "ok"},
		{"root's command, in its working directory", 0, []string{"uid=0 /home/u/w/l -> /srv/real"}, "l", "EROFS"},
		{"root's command, in its home", 0, []string{"uid=0 /home/u/l -> /srv/real"}, "~/l", "EROFS"},
	} {
		f := newFake(c.uid, append([]string{"uid=0 /home/", "/home/u/w/", "/srv/real/f"}, c.tree...)...)
		for _, entry := range []config.PathEntry{{Path: c.allow}, {Path: c.allow, Literal: true}} {
			p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = []config.PathEntry{entry} })
			if d := p.Decide(Write, "/srv/real/f"); d.Errno != c.write && (c.write != "ok" || !d.Allow) {
				t.Errorf("%s: %+v", c.name, d)
			}
			if got := strings.Contains(warnings(p), "symbolic link"); got != (c.write != "ok") {
				t.Errorf("%s: warnings %q", c.name, warnings(p))
			}
		}
	}
}

// A link is not trusted where another entry lets commands replace it, whatever
// the order of entries.
func TestTrustLooksAtEveryEntry(t *testing.T) {
	f := newFake(user, "uid=0 /a/l1 -> /b", "uid=0 /c/l2 -> /a", "/b/f", "/home/u/w/")
	for _, order := range [][]string{{"/a/l1", "/c/l2"}, {"/c/l2", "/a/l1"}} {
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(order...) })
		answers(t, p, "write /b/f EROFS")
	}
}

// fs-03: the working directory and the home directory are what they really are.
func TestDirectoriesReachedThroughLinks(t *testing.T) {
	f := newFake(user, "/real/w/f", "/real/h/x/f", "/cwd -> /real/w", "/home -> /real/h")
	p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
		in.Cwd, in.Home = "/cwd", "/home"
		fs.AllowWrite = entries(".", "~/x")
	})
	answers(t, p, "write /real/w/f ok", "write /cwd/f ok", "write /real/h/x/f ok")
}

// linux 4, 3: a write is judged by where it lands.
func TestWritesThroughLinks(t *testing.T) {
	f := newFake(user, "/home/u/w/out -> /etc/f", "/etc/f", "/elsewhere/in -> /home/u/w", "/home/u/w/f")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(".") })
	answers(t, p, "write /home/u/w/out EROFS", "write /elsewhere/in/f ok", "create /elsewhere/in/n ok", "remove /home/u/w/out ok")
}

// ".." after a link means one thing in text and another to the kernel. A deny
// covers both, an allow means the text.
func TestDotDotAfterLink(t *testing.T) {
	f := newFake(user, "/home/u/w/l -> ../t/sub", "/home/u/t/sub/", "/home/u/t/k", "/home/u/w/k")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("~"), entries("l/../k")
	})
	answers(t, p, "write /home/u/w/k EROFS", "write /home/u/t/k EROFS")
	p = mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.DenyRead, fs.AllowRead = entries("~"), entries("l/../k")
	})
	answers(t, p, "read /home/u/w/k ok", "read /home/u/t/k ENOENT")
}

// linux 23, 24, 90; git G5: every link on the way to a denied name stays, and
// so does the missing name behind a dangling one.
func TestLinksToDeniedNames(t *testing.T) {
	f := newFake(user, "/home/u/w/.bashrc -> dot/bashrc", "/home/u/w/dot/bashrc", "/home/u/w/.zshrc -> m/../z", "/home/u/w/sub/.profile -> ../dot/profile", "/home/u/w/sub/.vscode -> ../dot/vs", "/home/u/w/dot/vs/s.json")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(".") })
	answers(t, p, "write /home/u/w/.bashrc EROFS", "remove /home/u/w/.bashrc EBUSY", "to /home/u/w/.bashrc EBUSY", "from /home/u/w/dot EBUSY",
		"remove /home/u/w/.zshrc EBUSY", "create /home/u/w/m EPERM", "create /home/u/w/z EPERM",
		"remove /home/u/w/sub/.profile EBUSY", "create /home/u/w/dot/profile EPERM",
		"create /home/u/w/sub/.vscode/x EROFS", "remove /home/u/w/sub/.vscode EBUSY", "from /home/u/w/sub EBUSY")
}

// linux 25: a configured circle in a write root is refused; one that the search
// meets stays as it is, because nothing can be written through it.
func TestCircles(t *testing.T) {
	f := newFake(user, "/home/u/w/sub/.bashrc -> .bashrc", "/home/u/w/x")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(".") })
	answers(t, p, "remove /home/u/w/sub/.bashrc EBUSY", "write /home/u/w/sub/.bashrc ELOOP")
	_, err := resolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
		fs.AllowWrite, fs.DenyWrite = entries("."), entries("sub/.bashrc")
	})
	if e := new(Error); !errors.As(err, &e) || e.Code != "link_cycle" || e.Entry != "sub/.bashrc" {
		t.Errorf("%v", err)
	}
	// A chain that is too long could be cut short by the command.
	long := newFake(user, "/home/u/w/end")
	for i := range 60 {
		long.put("/home/u/w/sub/"+string(rune('A'+i)), &fakeNode{kind: Symlink, target: string(rune('A' + i + 1)), uid: user})
	}
	long.put("/home/u/w/sub/.bashrc", &fakeNode{kind: Symlink, target: "A", uid: user})
	if _, err := resolveFake(t, long, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(".") }); err == nil {
		t.Error("a chain of links that is too long was accepted")
	}
}

// A missing entry behind a link that a command could have planted stays so.
func TestCreatableThroughLink(t *testing.T) {
	f := newFake(user, "/home/u/w/l -> /home/u/.ssh", "/home/u/.ssh/id", "/home/u/w/dangling -> /home/u/new")
	p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries("l/authorized_keys", "dangling") })
	answers(t, p, "create /home/u/.ssh/authorized_keys EROFS", "create /home/u/new EROFS")
}

// linux 46, 47, 44: a carve-out that is a link shows nothing; through linked
// directories it works where no command can change the link.
func TestCarveOutsThroughLinks(t *testing.T) {
	f := newFake(user, "/home/u/h/priv/q", "/home/u/h/lp -> priv", "/home/u/docs -> /home/u/.ssh", "/home/u/.ssh/id", "/home/u/w/d -> /home/u/.ssh", "uid=0 /opt/ssh -> /home/u/.ssh", "/home/u/to -> h")
	for _, c := range []struct{ allow, path, want string }{
		{"~/h/lp", "/home/u/h/priv/q", "ENOENT"},
		{"~/docs", "/home/u/.ssh/id", "ENOENT"},
		{"./d/id", "/home/u/.ssh/id", "ENOENT"}, // the command can change d
		{"./d/*", "/home/u/.ssh/id", "ENOENT"},
		{"/opt/ssh", "/home/u/.ssh/id", "ok"}, // only root can have made it
		{"~/to/priv", "/home/u/h/priv/q", "ok"},
		{"~/h/priv", "/home/u/h/priv/q", "ok"},
	} {
		p := mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) {
			fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries("."), entries("~/h", "~/.ssh"), entries(c.allow)
		})
		answers(t, p, "read "+c.path+" "+c.want)
		if got := strings.Contains(warnings(p), "symbolic link"); got != (c.want != "ok") {
			t.Errorf("%s: said %q", c.allow, warnings(p))
		}
	}
}
