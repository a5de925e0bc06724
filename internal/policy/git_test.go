package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// repo writes a repository's files below dir.
func repo(dir string) []string {
	return []string{dir + "/HEAD", dir + "/config", dir + "/objects/x", dir + "/refs/x", dir + "/hooks/pre-commit"}
}

func (f *fakeFS) say(p, text string) *fakeFS {
	f.put(p, &fakeNode{kind: File, mode: 0o644, uid: f.uid, text: text})
	return f
}

func allowing(paths ...string) func(*Input, *config.Filesystem) {
	return func(_ *Input, fs *config.Filesystem) { fs.AllowWrite = entries(paths...) }
}

// git-11, cli 57, linux 86, G2: what a worktree's pointer leads to is protected, in both
// readings of "..".
func TestPointerFiles(t *testing.T) {
	for _, pointer := range []string{"gitdir: /home/u/main/.git/worktrees/wt\n", "gitdir: ../main/.git/worktrees/wt\r\n", "gitdir: /home/u/main/.git/worktrees/wt\x00junk"} {
		f := newFake(user, append(repo("/home/u/main/.git"), "/home/u/main/.git/worktrees/wt/HEAD", "/home/u/main/.git/index")...)
		f.say("/home/u/w/.git", pointer).say("/home/u/main/.git/worktrees/wt/commondir", "../..\n")
		p := mustResolveFake(t, f, allowing(".", "~/main"))
		answers(t, p, "write /home/u/w/.git EROFS", "remove /home/u/w/.git EBUSY", "to /home/u/w/.git EBUSY",
			"write /home/u/main/.git/hooks/pre-commit EROFS", "from /home/u/main/.git/hooks EBUSY", "write /home/u/main/.git/config EROFS", "create /home/u/main/.git/commondir EPERM",
			"write /home/u/main/.git/worktrees/wt/commondir EROFS", "create /home/u/main/.git/worktrees/wt/config.worktree EPERM",
			"write /home/u/main/.git/worktrees/wt/HEAD ok", "write /home/u/main/.git/index ok", "create /home/u/main/.git/worktrees/new ok")
	}
}

// The content of a file must not aim a deny anywhere; an absent target is kept
// absent; a pointer that is no pointer is only kept as it is.
func TestPointerTargets(t *testing.T) {
	for text, path := range map[string]string{"gitdir: ../src": "/home/u/src/config", "Gitdir: ../a/b/c/g": "/home/u/a/b/c/g/config", " gitdir: ../a/b/c/g": "/home/u/a/b/c/g/config", "gitdir:../a/b/c/g": "/home/u/a/b/c/g/config", "gitdir: ": "/home/u/a/b/c/g/config"} {
		f := newFake(user, append(repo("/home/u/a/b/c/g"), "/home/u/src/config", "/home/u/src/hooks/x")...).say("/home/u/w/.git", text)
		answers(t, mustResolveFake(t, f, allowing("~")), "write "+path+" ok", "write /home/u/w/.git EROFS")
	}
	f := newFake(user, "/home/u/w/x").say("/home/u/w/.git", "gitdir: ../later/git\n")
	answers(t, mustResolveFake(t, f, allowing("~")), "create /home/u/later EPERM")
	f = newFake(user, append(repo("/home/u/w/real"), "/home/u/w/sub/lnk -> ../real/hooks")...).say("/home/u/w/.git", "gitdir: sub/lnk/..\n")
	answers(t, mustResolveFake(t, f, allowing(".")), "write /home/u/w/real/hooks/pre-commit EROFS", "remove /home/u/w/sub/lnk EBUSY")
}

// A nested pointer stays writable; what it leads to does not.
func TestNestedPointer(t *testing.T) {
	f := newFake(user, append(repo("/home/u/w/deep/er/still/g"), "/home/u/w/x")...).say("/home/u/w/sub/.git", "gitdir: ../deep/er/still/g\n").say("/home/u/w/other/.git", "gitdir: ../missing\n")
	answers(t, mustResolveFake(t, f, allowing(".")), "write /home/u/w/sub/.git ok", "write /home/u/w/deep/er/still/g/hooks/pre-commit EROFS", "create /home/u/w/missing ok")
}

// git-13: a bare repository beside its worktrees; commits work.
func TestBareBesideWorktrees(t *testing.T) {
	f := newFake(user, append(repo("/home/u/.bare"), "/home/u/.bare/worktrees/w/HEAD", "/home/u/.bare/worktrees/w/index")...)
	f.say("/home/u/w/.git", "gitdir: /home/u/.bare/worktrees/w").say("/home/u/.bare/worktrees/w/commondir", "../..")
	answers(t, mustResolveFake(t, f, allowing(".", "~/.bare")), "write /home/u/.bare/hooks/pre-commit EROFS", "write /home/u/.bare/config EROFS",
		"write /home/u/.bare/worktrees/w/index ok", "create /home/u/.bare/worktrees/w/COMMIT_EDITMSG ok", "create /home/u/.bare/refs/heads ok", "create /home/u/.bare/objects/aa ok")
}

// linux 84, 85, 87, 88, 89; git-17: repositories in the working directory,
// nested ones, bare ones, submodules.
func TestGitDirectories(t *testing.T) {
	f := newFake(user, append(append(append(repo("/home/u/w/.git"), repo("/home/u/w/a/bare.git")...), repo("/home/u/w/.git/modules/lib/nested/modules/sub")...),
		"/home/u/w/.git/modules/lib/nested/HEAD", "/home/u/w/n/.git/HEAD", "/home/u/w/half/.git/objects/x", "/home/u/w/a/b/.git/HEAD", "/home/u/w/.git/config.worktree", "/home/u/w/.git/config.worktree.lock", "/home/u/w/l/.git -> ../../elsewhere", "/home/u/elsewhere/HEAD")...)
	p := mustResolveFake(t, f, allowing(".", "~/elsewhere"))
	answers(t, p, "write /home/u/w/.git/hooks/pre-commit EROFS", "create /home/u/w/.git/hooks/post-commit EROFS", "write /home/u/w/.git/config EROFS", "to /home/u/w/.git/config EBUSY", "create /home/u/w/.git/config.lock EPERM", "write /home/u/w/.git/config.worktree.lock EPERM", "remove /home/u/w/.git/config.worktree.lock EPERM",
		"read /home/u/w/.git/config.worktree ok", "write /home/u/w/.git/config.worktree EROFS", "create /home/u/w/.git/commondir EPERM", "from /home/u/w/.git EBUSY", "create /home/u/w/.git/index.lock ok",
		"write /home/u/w/a/bare.git/hooks/pre-commit EROFS", "write /home/u/w/a/bare.git/config EROFS",
		"write /home/u/w/.git/modules/lib/nested/modules/sub/hooks/pre-commit EROFS", "create /home/u/w/.git/modules/lib/nested/hooks EPERM", "create /home/u/w/.git/modules/other ok",
		"create /home/u/w/n/.git/hooks EPERM", "create /home/u/w/half/.git/hooks ok", "create /home/u/w/a/b/.git/hooks ok",
		"remove /home/u/w/l/.git EBUSY", "create /home/u/elsewhere/hooks EPERM")
}

// What is protected before it is a repository does not become one: the look at new
// repositories could take nothing of it away.
func TestIncompleteGitDirectories(t *testing.T) {
	f := newFake(user, append(repo("/home/u/w/.git"), "/home/u/w/.git/modules/a/config", "/home/u/w/.git/modules/b/HEAD", "/home/u/w/.git/modules/b/objects/x", "/home/u/w/.git/modules/c/HEAD/x", "/home/u/w/.git/modules/c/objects/x", "/home/u/w/.git/modules/c/refs/x",
		"/home/u/w/.git/worktrees/x/config.worktree", "/home/u/w/.git/worktrees/y/HEAD")...)
	f.say("/home/u/w/.git/worktrees/x/commondir", "/home/u/w/c").say("/home/u/w/.git/worktrees/y/commondir", "../..")
	f.say("/home/u/w/p/.git", "gitdir: ../q").put("/home/u/w/q/objects", &fakeNode{kind: Dir, mode: 0o755, uid: user})
	p := mustResolveFake(t, f, allowing("."))
	const modules, worktrees = "/home/u/w/.git/modules/", "/home/u/w/.git/worktrees/"
	answers(t, p, "create "+modules+"a/HEAD EPERM", "create "+modules+"a/refs EPERM", "create "+modules+"a/objects EPERM", "create "+modules+"b/refs EPERM", "write "+modules+"b/HEAD ok", "create "+modules+"b/objects/aa ok", "from "+modules+"c/HEAD EBUSY", "create "+modules+"c/refs/heads ok",
		"create "+modules+"d ok", "create "+worktrees+"x/HEAD EPERM", "write "+worktrees+"y/HEAD ok", "create "+worktrees+"y/refs ok", "create /home/u/w/q/HEAD EPERM", "create /home/u/w/q/refs EPERM")
}

// A commondir that was there before is followed from any git directory.
func TestCommonDirectory(t *testing.T) {
	f := newFake(user, append(repo("/home/u/w/.git"), repo("/home/u/shared")...)...).say("/home/u/w/.git/commondir", "/home/u/shared\n")
	answers(t, mustResolveFake(t, f, allowing("~")), "write /home/u/shared/hooks/pre-commit EROFS", "write /home/u/w/.git/commondir EROFS")
	f = newFake(user, repo("/home/u/w/.git")...)
	f.put("/home/u/w/.git/commondir", &fakeNode{kind: File, mode: 0, uid: user})
	_, err := resolveFake(t, f, allowing("."))
	if e := new(Error); !errors.As(err, &e) || e.Code != "git_metadata_unreadable" {
		t.Errorf("%v", err)
	}
	f = newFake(user, repo("/home/u/w/.git")...).say("/home/u/w/.git/commondir", ".\n") // itself, no endless loop
	mustResolveFake(t, f, allowing("."))
}

// An unreadable part of a git directory is kept as a whole.
func TestUnreadableModules(t *testing.T) {
	f := newFake(user, append(repo("/home/u/w/.git"), "mode=0 /home/u/w/.git/modules/")...)
	p := mustResolveFake(t, f, allowing("."))
	answers(t, p, "write /home/u/w/.git/modules EROFS", "from /home/u/w/.git/modules EBUSY")
}

// G6: what the configuration names is protected with it.
func TestConfiguredPaths(t *testing.T) {
	conf := "# comment = x\n[core]\n\tbare = false\n\thooksPath = \"my \\\"hooks\" ; where\n[include]path=../extra.cfg\n[includeIf \"gitdir:~/x]y/\"]\n\tPath = ~/inc\\\n.cfg\n"
	f := newFake(user, append(repo("/home/u/w/.git"), "/home/u/w/my \"hooks/pre-commit", "/home/u/w/extra.cfg", "/home/u/inc.cfg", "/home/u/w/third/x", "/home/u/w/free")...)
	f.say("/home/u/w/.git/config", conf).say("/home/u/w/extra.cfg", "[core]\nhookspath = third\n[core \"sub\"]\nhooksPath=free\n")
	p := mustResolveFake(t, f, allowing("~"))
	answers(t, p, "write /home/u/w/my \"hooks/pre-commit EROFS", "write /home/u/w/extra.cfg EROFS", "write /home/u/inc.cfg EROFS", "write /home/u/w/free ok", "write /home/u/w/third/x EROFS")
	p = mustResolveFake(t, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite, fs.AllowGitConfig = entries("~"), true })
	answers(t, p, "write /home/u/w/.git/config ok", "write /home/u/w/extra.cfg ok", "write /home/u/w/.git/hooks/pre-commit EROFS", "create /home/u/w/.git/commondir EPERM", "create /home/u/w/.git/config.worktree ok")

	f = newFake(user, append(repo("/home/u/w/.git"), "/home/u/w/pre-push")...).say("/home/u/w/.git/config", "[core]\nhooksPath=.\n")
	answers(t, mustResolveFake(t, f, allowing(".")), "create /home/u/w/pre-commit EPERM", "write /home/u/w/pre-push EROFS", "create /home/u/w/free ok")
}

// Relative hooks belong to each work tree of a repository.
func TestHooksOfTwoWorktrees(t *testing.T) {
	f := newFake(user, append(repo("/home/u/main/.git"), "/home/u/w/.githooks/x", "/home/u/v/.githooks/x", "/home/u/main/.githooks/x")...)
	f.say("/home/u/main/.git/config", "[core]\n hooksPath = .githooks\n")
	for _, wt := range []string{"w", "v"} {
		f.say("/home/u/"+wt+"/.git", "gitdir: ../main/.git/worktrees/"+wt).say("/home/u/main/.git/worktrees/"+wt+"/commondir", "../..").say("/home/u/main/.git/worktrees/"+wt+"/HEAD", "x")
	}
	answers(t, mustResolveFake(t, f, allowing(".", "~/v", "~/main")), "write /home/u/w/.githooks/x EROFS", "write /home/u/v/.githooks/x EROFS", "write /home/u/main/.githooks/x EROFS")
}

// Files that include each other cost as much as there are files.
func TestIncludesOfIncludes(t *testing.T) {
	f := newFake(user, repo("/home/u/w/.git")...)
	text := strings.Repeat("[include]\npath = config\npath = more\n", 100)
	f.say("/home/u/w/.git/config", text).say("/home/u/w/.git/more", text)
	answers(t, mustResolveFake(t, f, allowing(".")), "write /home/u/w/.git/more EROFS")
}
