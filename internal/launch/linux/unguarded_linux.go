package linux

import (
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// Without the guard a command can create protected names that did not exist. When
// everything of it has ended, they are moved aside, so that nothing finds what they
// hold: the next shell, editor or git would run it.

// watched are protected names that do not exist, with their directories. They stay
// open, so that a directory which the command moves is found again.
type watched struct {
	names []policy.Absent
	dirs  map[directory]*os.File
	// fold are names of which the case does not matter. others are those in the
	// directories that differ from them in case and were there before the run.
	fold   map[directory][]string
	others map[directory]map[string]bool
}

type directory struct{ dev, ino uint64 }

// watch opens the directories of the names.
func watch(names []policy.Absent) (*watched, error) {
	w := &watched{names: names, dirs: map[directory]*os.File{}, fold: map[directory][]string{}, others: map[directory]map[string]bool{}}
	for _, a := range names {
		key := directory{a.Dev, a.Ino}
		if a.Fold {
			w.fold[key] = append(w.fold[key], a.Name)
		}
		if w.dirs[key] != nil {
			continue
		}
		// The path was real when it was looked at; a link would be somebody's trick.
		fd, err := unix.Openat2(unix.AT_FDCWD, a.Parent, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		var st unix.Stat_t
		if err == nil {
			w.dirs[key] = os.NewFile(uintptr(fd), a.Parent)
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil && err != unix.ENOENT && err != unix.ENOTDIR && err != unix.ELOOP:
			w.close()
			return nil, &launch.StartError{Stage: "guard", Text: fmt.Sprintf("watching %s for protected names: %v", a.Parent, err), Cure: `remove linux.guard "off"`, Err: err}
		case err != nil, st.Dev != a.Dev, st.Ino != a.Ino:
			w.close()
			return nil, &launch.StartError{Stage: "changed", Text: a.Parent + " was replaced or removed while the sandbox was being set up"}
		}
	}
	for key, names := range w.fold {
		w.others[key] = map[string]bool{}
		for _, name := range alike(w.dirs[key], names) {
			w.others[key][name] = !slices.Contains(names, name) // else it appeared since the policy was made
		}
	}
	return w, nil
}

func (w *watched) close() {
	if w == nil {
		return
	}
	for _, f := range w.dirs {
		f.Close()
	}
	w.dirs = nil
}

// blockedSuffix marks what was moved aside.
const blockedSuffix = ".srt-blocked"

// takeNamesAway moves protected names aside that appeared during the run.
func (p *process) takeNamesAway() {
	if p.watched == nil {
		return
	}
	if p.via != nil && !p.leftBehind() {
		p.via.awaitInit()
	}
	defer func() {
		p.watched.close()
		p.watched = nil
	}()
	similar := map[directory][]string{}
	for key, dir := range p.watched.dirs {
		defer unlock(dir)()
		similar[key] = slices.DeleteFunc(alike(dir, p.watched.fold[key]), func(name string) bool { return p.watched.others[key][name] })
	}
	for _, a := range p.watched.names {
		key := directory{a.Dev, a.Ino}
		dir := p.watched.dirs[key]
		for _, name := range appeared(dir, a, similar[key]) {
			aside, err := moveAside(dir, name)
			outcome := "it is " + aside + " now"
			if err != nil {
				outcome = fmt.Sprintf("it cannot be moved aside: %v", err)
			}
			p.reportAppeared(a, name, outcome)
		}
	}
}

func (p *process) reportAppeared(a policy.Absent, name, outcome string) {
	p.request.Note(fmt.Sprintf("%s is protected (%s) and was created while linux.guard is \"off\"; %s", path.Join(a.Parent, name), a.Rule, outcome))
	p.request.Violation(launch.Violation{Operation: "create", Path: path.Join(a.Parent, name), Target: a.Full, Rule: a.Rule.String(), Cure: a.Rule.Cure})
}

// appeared lists the names that should not be there, of similar ones those that
// are meant.
func appeared(dir *os.File, a policy.Absent, similar []string) []string {
	if !a.Fold {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), a.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil
		}
		return []string{a.Name}
	}
	return slices.DeleteFunc(slices.Clone(similar), func(name string) bool { return !strings.EqualFold(name, a.Name) })
}

// alike lists the names in a directory that differ from others in case at most. A
// command can make a directory that is too large to be held in memory.
func alike(dir *os.File, others []string) (names []string) {
	const most = 1024
	if len(others) == 0 {
		return nil
	}
	_, _ = dir.Seek(0, 0)
	for {
		some, err := dir.Readdirnames(most)
		for _, n := range some {
			if slices.ContainsFunc(others, func(o string) bool { return strings.EqualFold(n, o) }) {
				names = append(names, n)
			}
		}
		if err != nil {
			return names
		}
	}
}

// unlock gives the owner of a directory what is needed to rename in it until lock is
// called: the command may have taken it away.
func unlock(dir *os.File) (lock func()) {
	const want, all = 0o700, 0o7777
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&want == want || int(st.Uid) != os.Geteuid() {
		return func() {}
	}
	_ = unix.Fchmod(fd, st.Mode&all|want)
	return func() { _ = unix.Fchmod(fd, st.Mode&all) }
}

// maxAside bounds the search for a free name among those that can be foreseen.
const maxAside = 100

// moveAside gives an object a name that means nothing to any program.
func moveAside(dir *os.File, name string) (aside string, err error) {
	const longest = 200 // of 255, the rest for what is added
	base := name[:min(len(name), longest)] + blockedSuffix
	for i := range maxAside + 3 {
		aside = base
		switch {
		case i >= maxAside: // the command made all the others
			aside += "-" + rand.Text()[:10]
		case i > 0:
			aside += fmt.Sprintf(".%d", i)
		}
		err = unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), aside, unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return aside, err
		}
	}
	return aside, err
}
