package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Invariant 4, for repositories that the command itself makes: git outside of
// the sandbox runs nothing that they name.

// repositoryAttack makes a repository in one or more runs. Then the user works in
// it with git, outside; EVIL stands for a program that leaves a trace.
type repositoryAttack struct {
	name string
	runs []string
	use  string
}

// useAnywhere is what a user does in a repository d.
const useAnywhere = `git -C d status; git -C d commit --allow-empty -m x; git -C d log; git -C d st; git -C d diff`

// byHand makes a repository's parts in $1 but for its HEAD.
const byHand = `parts() { mkdir -p $1/objects $1/refs/heads; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = EVIL\n' > $1/config; }; head() { echo 'ref: refs/heads/main' > $1; }; `

var repositoryAttacks = []repositoryAttack{
	{"fsmonitor", []string{`git init d; git -C d config core.fsmonitor 'EVIL'`}, useAnywhere},
	{"hook", []string{`git init d; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit`}, useAnywhere},
	{"hook by link", []string{`git init d; printf '#!/bin/sh\nEVIL\n' > e; chmod +x e; ln -s ../../../e d/.git/hooks/post-commit`}, useAnywhere},
	{"hooks elsewhere by link", []string{`git init d; rm -r d/.git/hooks; mkdir h; printf '#!/bin/sh\nEVIL\n' > h/post-commit; chmod +x h/post-commit; ln -s ../../h d/.git/hooks`}, useAnywhere},
	{"hooks path", []string{`git init d; mkdir d/h; printf '#!/bin/sh\nEVIL\n' > d/h/post-commit; chmod +x d/h/post-commit; git -C d config core.hooksPath h`}, useAnywhere},
	{"include", []string{`git init d; git config --file d/x core.fsmonitor 'EVIL'; git -C d config include.path ../x`}, useAnywhere},
	{"conditional include", []string{`git init d; git config --file d/x core.fsmonitor 'EVIL'; git -C d config 'includeIf.gitdir:/.path' ../x`}, useAnywhere},
	{"alias", []string{`git init d; git -C d config alias.st '!EVIL'`}, useAnywhere},
	{"alias of an option", []string{`git init d; git -C d config alias.st 'rebase --exec "EVIL" --root'; git -C d commit --allow-empty -m x`}, `git -C d st`},
	{"filter", []string{`git init d; git -C d config filter.x.clean 'EVIL'; echo '* filter=x' > d/.gitattributes; echo > d/f`}, `git -C d add .`},
	{"work tree configuration", []string{`git init d; git -C d config extensions.worktreeConfig true; git -C d config --worktree core.fsmonitor 'EVIL'`}, useAnywhere},
	{"other syntax", []string{`git init d; printf '[cOrE]fsMonitor="EV"\\\n"IL"; x' > d/.git/config`}, useAnywhere},
	{"by hand", []string{byHand + `mkdir d; parts d/.git; head d/.git/HEAD`}, useAnywhere},
	{"HEAD first", []string{byHand + `mkdir -p d/.git; head d/.git/HEAD; parts d/.git`}, useAnywhere},
	{"HEAD by rename", []string{byHand + `mkdir d; parts d/.git; head d/.git/h; mv d/.git/h d/.git/HEAD`}, useAnywhere},
	{"HEAD by hard link", []string{byHand + `mkdir d; parts d/.git; head h; ln h d/.git/HEAD`}, useAnywhere},
	{"HEAD by symbolic link", []string{byHand + `mkdir d; parts d/.git; ln -s refs/heads/main d/.git/HEAD`}, useAnywhere},
	{"HEAD through a link", []string{byHand + `mkdir d; parts d/.git; ln -s d/.git/HEAD l; head l`}, useAnywhere},
	{"objects last", []string{byHand + `mkdir d; parts d/.git; mv d/.git/objects o; head d/.git/HEAD; mv o d/.git/objects`}, useAnywhere},
	{"moved into place", []string{byHand + `mkdir d; parts p; head p/HEAD; mv p q; mv q d/.git`}, useAnywhere},
	{"moved above", []string{byHand + `mkdir -p a/b; parts a/b/.git; head a/b/.git/HEAD; mv a c; mv c/b d`}, useAnywhere},
	{"copied", []string{byHand + `mkdir x; parts x/.git; head x/.git/HEAD; cp -r x d`}, useAnywhere},
	{"unpacked", []string{byHand + `mkdir d; parts d/.git; head d/.git/HEAD; tar cf t d; rm -r d; tar xf t`}, useAnywhere},
	{"pointer", []string{byHand + `mkdir d; parts elsewhere; head elsewhere/HEAD; echo 'gitdir: ../elsewhere' > d/.git`}, useAnywhere},
	{"bare", []string{byHand + `parts d; head d/HEAD; printf '\tbare = false\n\tworktree = .\n' >> d/config`}, useAnywhere},
	{"common directory", []string{byHand + `mkdir -p d/.git; parts c; head d/.git/HEAD; echo ../../c > d/.git/commondir`}, useAnywhere},
	{"submodule", []string{byHand + `git init d; parts d/.git/modules/x; head d/.git/modules/x/HEAD; mkdir d/x; echo 'gitdir: ../.git/modules/x' > d/x/.git`}, `git -C d/x status`},
	{"closed files", []string{byHand + `mkdir d; parts d/.git; head d/.git/HEAD; chmod 0 d/.git/config d/.git`, `chmod 755 d/.git; chmod 644 d/.git/config`}, useAnywhere},
	{"closed hooks", []string{`git init d; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod 700 d/.git/hooks/post-commit; chmod 0 d/.git/hooks`, `chmod 755 d/.git/hooks`}, useAnywhere},
	{"second name of the configuration", []string{`git init d; ln d/.git/config c`, `echo '[core]fsmonitor=EVIL' >> c`}, useAnywhere},
	{"second name of a hook", []string{`git init d; printf '#!/bin/sh\nEVIL\n' > h; ln h d/.git/hooks/post-commit`, `chmod +x h`}, useAnywhere},
	{"linked configuration", []string{`git init d; mv d/.git/config c; ln -s ../../c d/.git/config`, `echo '[core]fsmonitor=EVIL' >> c`}, useAnywhere},
	{"in two runs", []string{byHand + `mkdir d; parts d/.git`, byHand + `head d/.git/HEAD`}, useAnywhere},
	{"objects in the second run", []string{byHand + `parts d; printf '\tbare = false\n\tworktree = .\n' >> d/config; head d/HEAD; rmdir d/objects`, `mkdir d/objects`}, useAnywhere},
	{"common directory in the second run", []string{byHand + `mkdir -p x/y/z/.git; head x/y/z/.git/HEAD; echo ../../../../c > x/y/z/.git/commondir`, byHand + `parts c`}, `git -C x/y/z status`},
	{"common directory of an earlier run", []string{byHand + `parts c`, byHand + `mkdir -p d/.git; head d/.git/HEAD; echo ../../c > d/.git/commondir`}, useAnywhere},
	{"taken names", []string{`git init d; git -C d config core.fsmonitor 'EVIL'; mkdir d/.git/config.srt-blocked; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit; ln -s x d/.git/hooks/post-commit.srt-blocked`}, useAnywhere},
	{"many hooks", []string{`git init d; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit; cd d/.git/hooks; for i in $(seq 100); do cp post-commit x$i; done`}, useAnywhere},
	{"a process that goes on", []string{`git init d; (trap '' TERM HUP; while :; do git -C d config core.fsmonitor 'EVIL'; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit; done) >/dev/null 2>&1 & until test -x d/.git/hooks/post-commit; do sleep 0.05; done; sleep 0.1`}, useAnywhere},
	{"before the first init", []string{`mkdir -p d/.git/hooks; printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit`}, "git init d;" + useAnywhere}, // cli 60b
	{"configuration before the first init", []string{byHand + `mkdir d; parts d/.git`}, "git init d;" + useAnywhere},
	{"before the first init, moved", []string{byHand + `mkdir -p a/b; parts p; mv p a/b/.git; mv a/b d`}, "git init d;" + useAnywhere},
	{"before the first init, by a link", []string{byHand + `mkdir d; parts p; ln -s ../p d/.git`}, "git init d;" + useAnywhere},
	{"before the first init, by a pointer", []string{byHand + `mkdir d; parts p; echo 'gitdir: ../p' > d/.git`}, "git init d;" + useAnywhere},
	{"before the first init, in two runs", []string{`mkdir -p d/.git`, byHand + `parts d/.git`}, "git init d;" + useAnywhere},
	{"before the first init, the hook later", []string{`mkdir -p d/.git/hooks`, `printf '#!/bin/sh\nEVIL\n' > d/.git/hooks/post-commit; chmod +x d/.git/hooks/post-commit`}, "git init d;" + useAnywhere},
	{"HEAD by exchange of directories", []string{byHand + `mkdir d d/.git; parts p; head p/HEAD; ATTACK "make: directories exchanged"`}, useAnywhere},
	{"HEAD by a nameless file", []string{byHand + `mkdir d; parts d/.git; ATTACK "make: nameless file"`}, useAnywhere},
	{"HEAD below descriptors", []string{byHand + `mkdir d; parts d/.git; ATTACK "make: below a descriptor"`}, useAnywhere},
	{"HEAD by a race", []string{byHand + `mkdir d; parts d/.git; ATTACK "make: race"`}, useAnywhere},
	{"common directory that had a HEAD", []string{byHand + `mkdir -p d/.git; parts c; head c/HEAD; rm c/HEAD; head d/.git/HEAD; echo ../../c > d/.git/commondir`}, useAnywhere},
	{"common directory with a directory for a HEAD", []string{byHand + `mkdir -p d/.git c/HEAD; parts c; head d/.git/HEAD; echo ../../c > d/.git/commondir`}, useAnywhere},
	{"NUL in a subsection", []string{`git init d; printf '[core "fsmonitor\0"]\n\tx = EVIL\n' >> d/.git/config`}, useAnywhere},
	{"HEAD exchanged with a directory", []string{byHand + `parts d; printf '\tbare = false\n\tworktree = .\n' >> d/config; mkdir d/HEAD`, byHand + `head h; ATTACK "make: HEAD exchanged"`}, useAnywhere},
	{"a directory HEAD exchanged", []string{byHand + `parts d; printf '\tbare = false\n\tworktree = .\n' >> d/config; mkdir d/HEAD`, byHand + `head h; ATTACK "make: HEAD given away"`}, useAnywhere},
	{"before the first init, over an empty directory", []string{`mkdir -p d/.git`, byHand + `parts x; mv -T x d/.git`}, "git init d;" + useAnywhere},
	{"before the first init, exchanged", []string{`mkdir -p d/.git`, byHand + `parts p; ATTACK "make: directories exchanged"`}, "git init d;" + useAnywhere},
	{"before the first init, hooks over an empty directory", []string{`mkdir -p d/.git/hooks`, `mkdir x; printf '#!/bin/sh\nEVIL\n' > x/post-commit; chmod +x x/post-commit; mv -T x d/.git/hooks`}, "git init d;" + useAnywhere},
	{"HEAD but no refs", []string{byHand + `mkdir d; parts d/.git; head d/.git/HEAD; rm -r d/.git/refs`}, "git init d;" + useAnywhere},
	{"refs in the second run", []string{byHand + `mkdir d; parts d/.git; head d/.git/HEAD; rm -r d/.git/refs`, `mkdir d/.git/refs`}, useAnywhere},
	{"configuration of an incomplete repository", []string{byHand + `mkdir -p d/1/2/3/.git; cd d/1/2/3; head .git/HEAD`, byHand + `cd d/1/2/3; parts .git; rm -r .git/refs`}, "git init d/1/2/3; git -C d/1/2/3 status"},
	{"pointer to an incomplete repository", []string{byHand + `mkdir d; parts x; head x/HEAD; rm -r x/refs; echo 'gitdir: ../x' > d/.git`, `mkdir x/refs`}, useAnywhere},
	{"protected name written by git", []string{`git init d; mkdir d/t; echo EVIL > d/t/.bashrc; git -C d --work-tree=t add .; git -C d commit -m x; git -C d config core.worktree ../..`}, `git -C d checkout -f; . ./.bashrc`},
	{"huge configuration", []string{`git init d; (git config --file d/.git/config core.fsmonitor 'EVIL'; head -c 2000000 /dev/zero | tr '\0' '\n') >> d/.git/config`}, useAnywhere},
}

func repositorySettings(backend string, allowed bool) string {
	return fmt.Sprintf(`{"network":{"allowedDomains":[],"deniedDomains":[]},"linux":{"backend":%q},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[],"allowNewRepositoryHooks":%v}}`, backend, allowed)
}

// repositoryMakers put the HEAD into place, by calls that no shell makes.
var repositoryMakers = []technique{
	{"make: directories exchanged", func() error { return swapNames("p", "d/.git") }},
	{"make: HEAD exchanged", func() error { return swapNames("h", "d/HEAD") }},
	{"make: HEAD given away", func() error { return swapNames("d/HEAD", "h") }},
	{"make: nameless file", func() error {
		fd, err := namelessFile()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, []byte("ref: refs/heads/main\n")); err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, "d/.git/HEAD", unix.AT_SYMLINK_FOLLOW)
	}},
	{"make: below a descriptor", func() error {
		dir, err := unix.Open("d/.git/refs", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return unix.Symlinkat("refs/heads/main", dir, "./heads/..//../HEAD")
	}},
	{"make: race", raceHead},
}

// raceHead changes the name under the eyes of whoever looks whether it is one
// that makes a repository.
func raceHead() error {
	if err := unix.Chdir("d/.git"); err != nil {
		return err
	}
	harmless, head := [8]byte{'h', 'e', 'r', 'd'}, [8]byte{'H', 'E', 'A', 'D'}
	var path atomic.Uint64 // the text itself, exchanged as one word
	go func() {
		for {
			path.Store(*(*uint64)(unsafe.Pointer(&harmless)))
			path.Store(*(*uint64)(unsafe.Pointer(&head)))
		}
	}()
	cwd, target := unix.AT_FDCWD, []byte("refs/heads/main\x00")
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		_, _, _ = unix.Syscall(unix.SYS_SYMLINKAT, uintptr(unsafe.Pointer(&target[0])), uintptr(cwd), uintptr(unsafe.Pointer(&path)))
		if _, err := os.Lstat("HEAD"); err == nil {
			return nil
		}
	}
	return unix.EPERM
}

// host runs a script outside of the sandbox, as the user and with an own home.
func (s *sandboxed) host(script string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.dir
	cmd.Env = s.gitEnvironment()
	if os.Getuid() == 0 && s.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func (s *sandboxed) gitEnvironment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.home, "TMPDIR=" + s.tmp, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main", "GORACE=" + os.Getenv("GORACE"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid"}
}

func (s *sandboxed) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.dir, name))
	return err == nil
}

// git runs a script in the sandbox and returns its standard output and error.
func (s *sandboxed) git(script string, options ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := s.command(append(options, "-c", script)...)
	cmd.Env = s.gitEnvironment()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return string(out), said.String()
}

// eachBackend runs a test as every user with every backend of this machine.
func eachBackend(t *testing.T, test func(t *testing.T, uid int, backend string)) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for _, backend := range []string{"native", "landlock", "bubblewrap"} {
		for _, uid := range users() {
			t.Run(fmt.Sprint(backend, uid), func(t *testing.T) {
				t.Parallel()
				if backend == "landlock" && inside.LandlockABI() == 0 {
					t.Skip("this kernel has no Landlock")
				}
				if _, err := exec.LookPath("bwrap"); backend == "bubblewrap" && err != nil {
					t.Skip("no bwrap")
				}
				test(t, uid, backend)
			})
		}
	}
}

// attacked makes the repository of an attack, uses it, and reports whether the
// program ran.
func attacked(t *testing.T, a repositoryAttack, uid int, backend string, allowed bool) (ran bool, reports string) {
	t.Helper()
	s := newSandboxed(t, uid, repositorySettings(backend, allowed))
	trace := filepath.Join(s.tmp, "trace")
	if err := os.Link(s.binary, filepath.Join(filepath.Dir(s.binary), "attack")); err != nil {
		t.Fatal(err)
	}
	evil := strings.NewReplacer("ATTACK", filepath.Join(filepath.Dir(s.binary), "attack"), `"EV"\\\n"IL"`, `"touch "\\\n"`+trace+`"`, "EVIL", "touch "+trace)
	for _, script := range a.runs {
		_, said := s.git(evil.Replace(script), "--violations", "always")
		reports += said
	}
	used := s.host(a.use)
	_, err := os.Lstat(trace)
	if testing.Verbose() {
		t.Logf("%s: %s\n%s", a.name, reports, used)
	}
	return err == nil, reports
}

func TestNewRepositoriesRunNothing(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		for i, a := range repositoryAttacks {
			if backend == "bubblewrap" && i%5 != 0 {
				continue // the same srt-init as with the native backend
			}
			ran, reports := attacked(t, a, uid, backend, false)
			if ran {
				t.Errorf("%s: the program ran; reported: %s", a.name, reports)
			}
			if !strings.Contains(reports, "deny repository-") {
				t.Errorf("%s: nothing was reported: %s", a.name, reports)
			}
		}
	})
}

// The control: where the settings allow it every attack works, and nothing is
// reported or renamed.
func TestNewRepositoriesAllowed(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for _, a := range repositoryAttacks {
		switch a.name {
		case "linked configuration", "closed files", "closed hooks", // protected in the next run anyway
			"refs in the second run",              // likewise
			"pointer to an incomplete repository": // refused in the next run anyway
			continue
		case
			"before the first init, by a pointer": // not every git makes it
			continue
		}
		ran, reports := attacked(t, a, os.Getuid(), "native", true)
		if !ran || strings.Contains(reports, "repository-") {
			t.Errorf("%s: ran %v; reported: %s", a.name, ran, reports)
		}
	}
}
