package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// concealedTechniques read what denyRead hides once a process of the host has put
// another object in its place. The change takes a mount away, so that each read may
// succeed for a moment; what counts is whether it goes on to.
var concealedTechniques = []technique{
	{"concealed: nothing yet", func() error {
		go stir()
		var err error
		if concealedDir, err = unix.Open(".", unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return err
		}
		return awaitHost()
	}},
	{"concealed: a file that another was renamed over", reads(".env")},
	{"concealed: by its directory, opened before", func() error {
		return readsOn(func() (int, error) { return unix.Openat(concealedDir, ".env", unix.O_RDONLY, 0) })
	}},
	{"concealed: through the root of the process", reads("/proc/self/root/proc/self/cwd/.env")},
	{"concealed: by a new name", func() error {
		return readsOn(func() (int, error) {
			_ = os.Remove("other")
			if err := unix.Link(".env", "other"); err != nil {
				return -1, err
			}
			return unix.Open("other", unix.O_RDONLY, 0)
		})
	}},
	{"concealed: a file that was renamed over again and again", reads("often")},
	{"concealed: a file that was removed and made again", reads("made")},
	{"concealed elsewhere: a file that was renamed, at its new name", reads("moved.bak")},
	{"concealed: a file that was renamed, at its old name", reads("moved")},
	{"concealed: a file that was exchanged", reads("exchanged")},
	{"concealed: a name that was linked", reads("linked")},
	{"concealed elsewhere: a link in the place of a file", reads("aslink")},
	{"concealed: a directory in the place of a file", reads("asdir/file")},
	{"concealed: a file in the place of a directory", reads("asfile")},
	{"concealed: a file that a pattern found", reads("key.pem")},
	{"concealed: a directory that was made again", reads("keys/file")},
	{"concealed: a directory that another was renamed over", reads("over/file")},
	{"concealed: a hidden directory with something shown in it", reads("nest/file")},
	{"concealed: in a directory that was made again", reads("deep/dir/file")},
	{"concealed: in a directory that was made again twice", reads("twice/dir/file")},
	{"concealed elsewhere: in a directory that is a link now", reads("way/dir/file")},
	{"concealed elsewhere: behind a link that leads elsewhere now", reads("link")},
	{"concealed later: a file that was missing", reads("late")},
	{"concealed later: a file of a directory that was missing", reads("missing/dir/file")},
	{"concealed: a file outside of the write roots", reads("../home/.aws/credentials")},
	{"concealed: a file whose directory outside was made again", reads("../home/.config/gh/hosts")},
}

var concealedDir int

// stir gives whoever watches the directory much to read.
func stir() {
	for {
		_ = open("stir", unix.O_WRONLY|unix.O_CREAT)
		_ = os.Rename("stir", "stirred")
		_ = os.Remove("stirred")
	}
}

// reads opens a path until that is refused for good.
func reads(name string) func() error {
	return func() error { return readsOn(func() (int, error) { return unix.Open(name, unix.O_RDONLY, 0) }) }
}

func readsOn(try func() (int, error)) error {
	patience := 10 * time.Second
	if os.Getenv("RACE_CONTROL") != "" {
		patience = 0
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		fd, err := try()
		if err != nil {
			return err
		}
		if fd >= 0 {
			unix.Close(fd)
		}
		if time.Now().After(end) {
			return nil
		}
	}
}

const concealedSettings = `{"linux":{"backend":"%s"%s},"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[".env","often","made","moved","exchanged",
	"linked","aslink","asdir","asfile","*.pem","keys","over","nest","deep/dir/file","twice/dir/file","way/dir/file","link","~/.aws/credentials","~/.config/gh/hosts"%s],
	"allowRead":["nest/shown"],"allowWrite":["."],"denyWrite":[]}}`

// countConcealed counts the techniques of groups.
func countConcealed(groups []string) (n int) {
	for _, a := range concealedTechniques {
		if slices.ContainsFunc(groups, func(g string) bool { return strings.HasPrefix(a.name, g) }) {
			n++
		}
	}
	return n
}

// What denyRead hides stays so when a process of the host replaces it.
func TestConcealedFromHost(t *testing.T) {
	const missing = `,"late","missing/dir/file"`
	for _, uid := range users() {
		for _, c := range []struct{ name, backend, linux, missing string }{
			{"native", "native", "", missing},
			{"bubblewrap", "bubblewrap", "", missing},
			{"landlock", "landlock", "", missing},
			{"unguarded", "native", `,"guard":"off"`, ""}, // where what is missing cannot be denied
		} {
			t.Run(fmt.Sprint("uid", uid, c.name), func(t *testing.T) {
				needBackend(t, c.backend)
				groups := []string{"concealed:", "concealed later:", "concealed elsewhere:"}
				if c.missing == "" {
					groups = slices.Delete(groups, 1, 2)
				}
				if c.backend == "landlock" {
					groups = groups[:2] // it goes by the name that an object has
				}
				s := newSandboxed(t, uid, fmt.Sprintf(concealedSettings, c.backend, c.linux, c.missing))
				out := s.whileHostReplaces(s.attack, groups)
				for _, name := range []string{"link", "way"} {
					told := strings.Contains(out, "another symbolic link at "+filepath.Join(s.dir, name)+",")
					if told != (c.backend != "landlock") {
						t.Errorf("what became of %s is told: %v\n%s", name, told, out)
					}
				}
				out = strings.ReplaceAll(out, "srt: warning: linux.guard is \"off\": refused", "")
				expect(t, out, countConcealed(groups), 0)
			})
		}
		t.Run(fmt.Sprint("uid", uid, "control"), func(t *testing.T) {
			s := newSandboxed(t, uid, fmt.Sprintf(concealedSettings, "native", "", missing))
			expect(t, s.whileHostReplaces(func(_ []string, stdin *os.File, names ...string) string {
				return s.unconfined([]string{"RACE_CONTROL=yes"}, stdin, names...)
			}, []string{"concealed"}), 1, len(concealedTechniques)-1)
		})
	}
}

// Where the user has no inotify left, srt-init looks from time to time.
func TestConcealedWithoutInotify(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a user of whom no program runs")
	}
	const uid = ordinaryUser + 1
	groups := []string{"concealed"}
	s := newSandboxed(t, uid, fmt.Sprintf(concealedSettings, "native", "", `,"late","missing/dir/file"`))
	defer exhaustInotify(t, uid)()
	expect(t, s.whileHostReplaces(s.attack, groups), countConcealed(groups), 0)
}

// closedTechniques read what lies in a directory that can be searched and not read,
// of which the kernel tells an ordinary user no changes.
var closedTechniques = []technique{
	{"closed: nothing yet", concealedTechniques[0].try},
	{"closed: a file that was made again", reads("../closed/secret")},
}

// Where the kernel does not tell of one directory, srt-init looks from time to time
// however much it is told of others.
func TestConcealedInClosedDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a directory of another user's")
	}
	s := newSandboxed(t, ordinaryUser, `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":["../closed/secret",".env"],"allowWrite":["."],"denyWrite":[]}}`)
	closed := filepath.Join(filepath.Dir(s.dir), "closed")
	for _, run := range []struct {
		try                func() string
		refused, succeeded int
	}{
		{func() string { return s.attack(nil, nil, "closed") }, 2, 0},
		{func() string { return s.unconfined([]string{"RACE_CONTROL=yes"}, nil, "closed") }, 1, 1},
	} {
		s.hostFile(closed, "before")
		failed := make(chan error, 1)
		go func() {
			err := s.awaitCommand()
			if err == nil {
				err = os.Rename(filepath.Join(closed, "secret"), filepath.Join(closed, "old"))
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(closed, "secret"), []byte("after"), 0o644)
			}
			failed <- errors.Join(err, s.asUser("touch", "go"))
		}()
		out := run.try()
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		expect(t, out, run.refused, run.succeeded)
		for _, name := range []string{"ready", "go"} {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// hostFile makes a file of this process's user in a directory that others can search.
func (s *sandboxed) hostFile(dir, text string) {
	s.t.Helper()
	if err := os.MkdirAll(dir, 0o711); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// exhaustInotify takes all that a user may have until the returned function is called.
func exhaustInotify(t *testing.T, uid int) (release func()) {
	const most = 4096
	taken := make(chan []int)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var fds []int
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e == 0 {
			for len(fds) < most {
				fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
				if err != nil {
					break
				}
				fds = append(fds, fd)
			}
		}
		taken <- fds
	}()
	fds := <-taken
	release = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	if len(fds) == 0 || len(fds) == most {
		release()
		t.Skipf("a user of this machine may have more than %d", len(fds))
	}
	return release
}

// whileHostReplaces plants files, and replaces them when the command is there.
func (s *sandboxed) whileHostReplaces(try func(env []string, stdin *os.File, names ...string) string, groups []string) string {
	s.t.Helper()
	if err := s.asUser("sh", "-ec", `
for d in asfile keys over nest/shown deep/dir twice/dir way/dir ../home/.aws ../home/.config/gh; do mkdir -p $d; done
for f in .env often made moved exchanged linked aslink asdir key.pem keys/file over/file nest/file deep/dir/file twice/dir/file way/dir/file target ../home/.aws/credentials ../home/.config/gh/hosts
do echo before >$f; done
ln -s target link`); err != nil {
		s.t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- s.replaceConcealed() }()
	out := try(nil, nil, groups...)
	if err := <-failed; err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *sandboxed) replaceConcealed() error {
	if err := s.awaitCommand(); err != nil {
		return err
	}
	if err := s.asUser("sh", "-ec", `
new() { echo after >$1.new; mv -T $1.new $1; }
for f in .env key.pem ../home/.aws/credentials; do new $f; done
i=0; while [ $i -lt 100 ]; do new often; i=$((i+1)); done
rm made; echo after >made
mv moved moved.bak; echo after >moved
echo after >exchanged.new
rm linked; echo after >linked.other; ln linked.other linked
echo after >plain; ln -sfT plain aslink
rm asdir; mkdir asdir; echo after >asdir/file
rmdir asfile; echo after >asfile
mkdir over.new; echo after >over.new/file; rm over/file; mv -T over.new over
for d in keys nest; do mv $d $d.old; mkdir $d; echo after >$d/file; done
rm -r deep; mkdir -p deep/dir; echo after >deep/dir/file
for i in 1 2; do rm -r twice; mkdir -p twice/dir; echo after >twice/dir/file; done
mv way way.old; mkdir -p elsewhere/dir; echo after >elsewhere/dir/file; ln -s elsewhere way
ln -sfT plain link
echo after >late; mkdir -p missing/dir; echo after >missing/dir/file
mv ../home/.config ../home/.config.old; mkdir -p ../home/.config/gh; echo after >../home/.config/gh/hosts`); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(s.dir, "exchanged"), unix.AT_FDCWD, filepath.Join(s.dir, "exchanged.new"), unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	return s.asUser("sh", "-c", ": >go")
}

// awaitCommand waits until the attack program lets the host act.
func (s *sandboxed) awaitCommand() error {
	for end := time.Now().Add(time.Minute); unix.Access(filepath.Join(s.dir, "ready"), unix.F_OK) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the command does not begin")
		}
	}
	return nil
}
