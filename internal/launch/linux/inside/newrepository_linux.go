package inside

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/rmtree"
)

// After the command, when no process of it is left, srt-init looks at the
// repositories that it made: git outside of the sandbox would run their hooks
// and what their configuration names. It works through descriptors, with the
// rights of the command and in the command's own tree of mounts, so that nothing
// it is led to can be outside of what the command could change.
//
// A repository that git can use with no program of its own is left as it is.
// From others the entries are taken that run programs; the originals stay beside
// them, under names that git does not look for.

const (
	// blockedSuffix is what a renamed file is marked with.
	blockedSuffix = ".srt-blocked"
	// maxConfig bounds one configuration file, maxConfigs all that are read.
	maxConfig  = 1 << 20
	maxConfigs = 64 << 20
	// maxConfigLines bounds the entries of one, each of which takes much more memory
	// than its two bytes.
	maxConfigLines = 50_000
	// maxHooks is how many hooks are renamed one by one.
	maxHooks = 64
	// maxHookNames bounds the entries of one directory that are looked at.
	maxHookNames = 10_000
	// maxBlocked is how many reports one run makes.
	maxBlocked = 500
	// maxCommonDir is more than any path.
	maxCommonDir = unix.PathMax
	// maxLook bounds the time of all looks together, so that a command cannot make
	// its end take as long as it likes. What is left then is renamed unseen.
	maxLook = 8 * time.Second
)

// Operations of the reports.
const (
	repositoryConfig = "repository-config"
	repositoryHook   = "repository-hook"
	repositoryUnseen = "repository"
)

// inspection is the look at all repositories of a run.
type inspection struct {
	control int
	// rules and shared decide what the command could change where no mounts do.
	rules  *pathRules
	shared sharedMemory
	// private is removed after the run, with all that it holds.
	private string
	// common are directories that a commondir led to and that were looked at.
	common map[object]bool
	until  time.Time
	read   int64 // bytes of configuration so far
	sent   int
	failed bool // something could not be looked at
	// list is what there is to look at, at the part of it that is done.
	list []noted
	at   atomic.Int64
}

// all looks at everything. It reports whether it could.
func (n *inspection) all() bool {
	for i, dir := range n.list {
		n.at.Store(int64(i))
		if dir.above {
			n.above(dir.fd)
		} else {
			n.repository(dir.fd)
		}
	}
	n.at.Store(int64(len(n.list)))
	if n.sent > maxBlocked {
		n.send(repositoryConfig, "more", "more of the same", fmt.Sprintf("%d more like these", n.sent-maxBlocked))
	}
	return !n.failed
}

// repository looks at one directory. One that lacks a part is no repository, and
// no reason to touch what may be somebody's files of the same names, unless it is
// called .git: getting that part makes a later run look at it, or that run protects
// what is there and refuses the missing part.
func (n *inspection) repository(dir int) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || st.Nlink == 0 {
		return
	}
	giveBack(dir, &st)
	if n.isPrivate(dir) {
		return
	}
	complete := n.complete(dir)
	// A path that is too long to be told may end in anything.
	name, _ := placeOf(dir)
	switch {
	case complete && n.late():
		n.takeAll(dir, "there was no time left to look at it")
	case complete:
		n.contents(dir)
		n.commonDir(dir)
	case name == "" || strings.EqualFold(path.Base(name), gitName):
		n.prepared(dir)
	}
}

func (n *inspection) late() bool { return !n.until.IsZero() && time.Now().After(n.until) }

// complete reports whether git takes a directory for a repository.
func (n *inspection) complete(dir int) bool {
	return n.has(dir, headName) && (n.has(dir, "commondir") || n.has(dir, "objects") && n.has(dir, "refs"))
}

// prepared looks at a directory .git that lacks a part. Nothing in it is of any use
// before "git init", which would keep it.
func (n *inspection) prepared(dir int) {
	n.takeAll(dir, "part of a repository that is still to be made")
}

// takeAll blocks all that git runs or that leads to it.
func (n *inspection) takeAll(dir int, why string) {
	for name, operation := range map[string]string{"config": repositoryConfig, "config.worktree": repositoryConfig, "commondir": repositoryConfig, "hooks": repositoryHook} {
		m := n.member(dir, name)
		if m == nil {
			continue
		}
		if name != "hooks" || m.kind() == unix.S_IFLNK || m.kind() == unix.S_IFDIR && n.holdsHooks(m) {
			n.block(m, operation, why, "")
		}
		m.close()
	}
}

// holdsHooks reports whether a directory of hooks holds more than samples.
func (n *inspection) holdsHooks(m *member) bool {
	if n.late() {
		return true
	}
	names, err := m.names(maxHookNames)
	return err != nil || slices.ContainsFunc(names, func(name string) bool { return !strings.HasSuffix(strings.ToLower(name), ".sample") })
}

// above looks at the .git of a directory. What a pointer leads to is noted by
// itself, unless it was a repository before or is still to become one.
func (n *inspection) above(dir int) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || st.Nlink == 0 {
		return
	}
	giveBack(dir, &st)
	if n.isPrivate(dir) {
		return
	}
	m := n.member(dir, gitName)
	if m == nil {
		return
	}
	defer m.close()
	if m.kind() == unix.S_IFDIR {
		if !n.complete(m.fd) {
			n.prepared(m.fd)
		}
		return
	}
	if n.late() {
		n.block(m, repositoryConfig, "a pointer that there was no time left to follow", "")
		return
	}
	git, err := openPointed(m)
	if err == nil {
		defer unix.Close(git)
	}
	if err != nil || !isRepository(git) || n.isPrivate(git) {
		n.block(m, repositoryConfig, "a pointer to a repository that is still to be made", "")
	}
}

// openPointed opens the directory that a .git is, as a link or a file leads to.
func openPointed(m *member) (int, error) {
	target := gitName
	if m.kind() == unix.S_IFREG {
		text, _ := m.readAll(maxCommonDir) // no pointer if it cannot be read
		after, _ := strings.CutPrefix(string(text), "gitdir: ")
		target, _, _ = strings.Cut(after, "\x00")
		target = strings.TrimRight(target, "\r\n")
	}
	return unix.Openat2(m.dir, target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
}

// isPrivate reports whether a directory is removed after the run.
func (n *inspection) isPrivate(dir int) bool {
	name, ok := placeOf(dir)
	return ok && n.private != "" && (name == n.private || Beneath(n.private, name))
}

// has reports whether a directory has an entry. One that cannot be looked at
// counts, but not without a word.
func (n *inspection) has(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		n.failed = true
		return true
	}
	return err == nil && (name != headName || st.Mode&unix.S_IFMT != unix.S_IFDIR)
}

// placeOf returns the path of a directory. One that was moved out of the mount
// that it was opened through has a path in its file system only; ok is then false.
func placeOf(dir int) (name string, ok bool) {
	var held, found unix.Stat_t
	name, e := objectName(dir)
	ok = e == 0 && unix.Fstat(dir, &held) == nil && unix.Lstat(name, &found) == nil && held.Dev == found.Dev && held.Ino == found.Ino
	return name, ok
}

// contents looks at what git would run of one directory.
func (n *inspection) contents(dir int) {
	n.config(dir, "config")
	n.config(dir, "config.worktree")
	n.hooks(dir)
}

// hooks blocks the programs in the directory of hooks.
func (n *inspection) hooks(dir int) {
	m := n.member(dir, "hooks")
	if m == nil {
		return
	}
	defer m.close()
	switch m.kind() {
	case unix.S_IFLNK:
		n.block(m, repositoryHook, "hooks elsewhere", "")
		return
	case unix.S_IFDIR:
	default:
		return
	}
	found, err := n.programs(m)
	if err != nil || len(found) > 0 && n.sent > maxBlocked || len(found) > maxHooks {
		n.block(m, repositoryHook, "too many hooks", "")
		found = nil
	}
	for _, name := range found {
		if h := n.member(m.fd, name); h != nil {
			n.block(h, repositoryHook, "executable hook", "")
			h.close()
		}
	}
}

// programs lists what git could run in a directory of hooks, now or after
// somebody changed it by another name.
func (n *inspection) programs(m *member) ([]string, error) {
	names, err := m.names(maxHookNames)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		if n.late() {
			return nil, errors.New("no time left")
		}
		if strings.HasSuffix(strings.ToLower(name), ".sample") || strings.Contains(name, blockedSuffix) {
			continue
		}
		h := n.member(m.fd, name)
		if h == nil {
			continue
		}
		file := h.kind() == unix.S_IFREG && (h.stat.Mode&0o111 != 0 || !h.alone())
		if file || h.kind() == unix.S_IFLNK {
			found = append(found, name)
		}
		h.close()
	}
	return found, nil
}

// commonDir looks at the directory that a repository shares hooks and
// configuration with, unless that was a repository already. One that is not
// there now could come later, without anything that this run would see.
func (n *inspection) commonDir(dir int) {
	m := n.member(dir, "commondir")
	if m == nil {
		return
	}
	defer m.close()
	text, err := m.readAll(maxCommonDir)
	if err != nil || !m.alone() {
		n.block(m, repositoryConfig, "a commondir that is not a plain file", "")
		return
	}
	target, _, _ := strings.Cut(string(text), "\x00")
	common, err := unix.Openat2(dir, strings.TrimRight(target, "\r\n"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		n.block(m, repositoryConfig, "a commondir that leads nowhere", "")
		return
	}
	defer unix.Close(common)
	var st unix.Stat_t
	if unix.Fstat(common, &st) != nil {
		return
	}
	if n.mayWriteBelow(common) {
		giveBack(common, &st)
	}
	has := func(name string) bool { return exists(location{dir: common, name: name}) }
	switch {
	case !has("objects") || !has("refs"):
		n.block(m, repositoryConfig, "a commondir that leads to no repository", "")
	case n.isPrivate(common):
		n.block(m, repositoryConfig, "a commondir that leads into the run's temporary directory", "")
	case !n.has(common, headName) && !n.common[object{st.Dev, st.Ino}]:
		n.common[object{st.Dev, st.Ino}] = true
		n.contents(common) // with a HEAD it was looked at by itself, or was there before the run
	}
}

// block renames an entry to a name that git does not look for, and reports it.
func (n *inspection) block(m *member, operation, why, more string) {
	target, err := setAside(m)
	if err == nil {
		n.report(m, operation, why, "renamed to "+target+more)
		return
	}
	if err == unix.EBUSY { // somebody mounted something there, which holds more than this
		n.failed = true
		n.report(m, operation, why, "it could not be renamed: "+err.Error()+"; look at it before you use git there")
		return
	}
	// A new name may need space that the disk does not have; removing needs none.
	outcome := "removed, for it could not be renamed: " + err.Error()
	if err := rmtree.Remove(path.Join(descriptorPath(m.dir), m.name)); err != nil {
		n.failed = true
		outcome = "it could not be renamed or removed: " + err.Error() + "; look at it before you use git there"
	}
	n.report(m, operation, why, outcome)
}

func (n *inspection) report(m *member, operation, why, outcome string) {
	if n.sent++; n.sent <= maxBlocked {
		dir, ok := placeOf(m.dir)
		if !ok {
			outcome += " (the directory was moved; this is its path in its file system)"
		}
		n.send(operation, path.Join(dir, m.name), why+" in a new repository", why+": "+outcome)
	}
}

func (n *inspection) send(operation, name, what, outcome string) {
	fields := []string{operation, name, newRepositoryRule(what), newRepositoryCure, outcome}
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "\x00", " ")
	}
	_ = SendMessage(n.control, MessageBlocked, []byte(strings.Join(fields, "\x00")))
}
