package linux

import (
	"fmt"
	"os"
	"path"
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
}

type directory struct{ dev, ino uint64 }

// watch opens the directories of the names.
func watch(names []policy.Absent) (*watched, error) {
	w := &watched{names: names, dirs: map[directory]*os.File{}}
	for _, a := range names {
		key := directory{a.Dev, a.Ino}
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
		case err != nil:
			w.close()
			return nil, &launch.StartError{Stage: "guard", Text: fmt.Sprintf("watching %s for protected names: %v", a.Parent, err), Cure: `remove linux.guard "off"`, Err: err}
		case st.Dev != a.Dev || st.Ino != a.Ino:
			w.close()
			return nil, &launch.StartError{Stage: "changed", Text: a.Parent + " was replaced while the sandbox was being set up"}
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
	if p.via != nil {
		p.via.awaitInit()
	}
	for _, a := range p.watched.names {
		dir := p.watched.dirs[directory{a.Dev, a.Ino}]
		for _, name := range appeared(dir, a) {
			aside, err := moveAside(dir, name)
			outcome := "it is " + aside + " now"
			if err != nil {
				outcome = fmt.Sprintf("it cannot be moved aside: %v", err)
			}
			p.reportAppeared(a, name, outcome)
		}
	}
	p.watched.close()
	p.watched = nil
}

func (p *process) reportAppeared(a policy.Absent, name, outcome string) {
	p.request.Note(fmt.Sprintf("%s is protected (%s) and was created while linux.guard is \"off\"; %s", path.Join(a.Parent, name), a.Rule, outcome))
	p.request.Violation(launch.Violation{Operation: "create", Path: path.Join(a.Parent, name), Target: a.Full, Rule: a.Rule.String(), Cure: a.Rule.Cure})
}

// appeared lists the names that should not be there.
func appeared(dir *os.File, a policy.Absent) []string {
	if !a.Fold {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), a.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil
		}
		return []string{a.Name}
	}
	_, _ = dir.Seek(0, 0)
	all, _ := dir.Readdirnames(-1)
	var names []string
	for _, name := range all {
		if strings.EqualFold(name, a.Name) {
			names = append(names, name)
		}
	}
	return names
}

// maxAside bounds the search for a free name.
const maxAside = 100

// moveAside gives an object a name that means nothing to any program.
func moveAside(dir *os.File, name string) (aside string, err error) {
	for i := range maxAside {
		aside = name + blockedSuffix
		if i > 0 {
			aside += fmt.Sprintf(".%d", i)
		}
		err = unix.Renameat2(int(dir.Fd()), name, int(dir.Fd()), aside, unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return aside, err
		}
	}
	return aside, err
}
