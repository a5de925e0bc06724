package inside

import (
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/gitconfig"
)

// repositories are the directories that became git directories, or are about to,
// while the command runs. Each is held by a descriptor, which follows it wherever
// it is moved.
//
// git takes a directory for a repository when it has an entry HEAD, and objects
// and refs of its own or of the directory that its commondir names. The guard
// performs every call that makes a name, so no directory gets the last of these
// unseen.
//
// A directory .git that is no repository yet is noted, too, for "git init" keeps
// the hooks and the configuration that it finds there.
type repositories struct {
	mu   sync.Mutex
	held map[object]int // O_PATH descriptors
	// above are the directories in which the name .git was made.
	above map[object]int
	most  int
	asked int // since the last look for those that are gone
}

// maxRepositories bounds the descriptors. A clone has about six directories:
// with a HEAD, three of them of logs and remote branches, and the one above.
const maxRepositories = 8192

func newRepositories() *repositories {
	return &repositories{held: map[object]int{}, above: map[object]int{}, most: share(maxRepositories)}
}

// share bounds a number of descriptors that are held as long as the command wants to
// a quarter of all: srt-init needs some for every call, and for the look at the end.
func share(most int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = min(most, int(min(limit.Cur, 1<<20)/4))
	}
	return most
}

// headName is the entry without which there is no repository.
const headName = "HEAD"

// gitName is the directory, or the pointer to one, of a repository with files
// checked out.
const gitName = ".git"

// repositoryPart reports whether a name is one that makes a repository. Case is
// ignored: some file systems do.
func repositoryPart(name string) bool { return isOneOf(name, headName, "refs", "objects", "commondir") }

func isOneOf(name string, all ...string) bool {
	return slices.ContainsFunc(all, func(n string) bool { return strings.EqualFold(n, name) })
}

// isHead reports whether there is something at a location that git may take for
// a HEAD. A directory may get out of the way without a call that the guard sees.
func isHead(at location) bool {
	var st unix.Stat_t
	return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// isRepository reports whether git takes a directory for a repository.
func isRepository(dir int) bool {
	has := func(name string) bool { return exists(location{dir: dir, name: name}) }
	return isHead(location{dir: dir, name: headName}) && (has("commondir") || has("objects") && has("refs"))
}

// ordinaryName spares nearly every name the comparisons.
func ordinaryName(name string) bool {
	return name == "" || !strings.Contains(".AaCcFfHhOoPpRrSsUu", name[:1])
}

// arrive is asked before a name is made. It notes the directory that may become
// a repository by that; where no more can be noted, the name is refused. replaces
// says that the name may be there already and gets another object: a rename puts
// directories over empty ones, and exchanges anything.
func (g *guard) arrive(c *call, operation string, at location, replaces bool) unix.Errno {
	if g.repositories == nil || ordinaryName(at.name) {
		return 0
	}
	first, ok := false, true
	switch {
	case strings.EqualFold(at.name, gitName):
		if replaces || !exists(at) {
			first, ok = g.repositories.note(at.dir, true)
		}
	case strings.EqualFold(at.name, headName):
		if !isHead(at) {
			first, ok = g.repositories.note(at.dir, false)
		}
	case repositoryPart(at.name):
		if !exists(at) && exists(location{dir: at.dir, name: headName}) {
			first, ok = g.repositories.note(at.dir, false)
		}
	}
	if ok {
		var prepared bool
		prepared, ok = g.repositories.prepare(at, replaces)
		first = first || prepared
	}
	if ok && !first {
		return 0
	}
	name, _ := nameOf(at)
	if !ok {
		g.reportPath(c, operation, name, newRepositoryRule("too many repositories made in one run"), newRepositoryCure)
		return unix.EPERM
	}
	_ = SendMessage(g.control, MessageRepository, []byte(name))
	return 0
}

// prepare notes a directory .git that is no repository yet and gets what git will
// use once it is one.
func (r *repositories) prepare(at location, replaces bool) (first, ok bool) {
	hook := gitconfig.IsHook(at.name)
	if !hook && !isOneOf(at.name, "config", "config.worktree", "hooks", "commondir") || !replaces && exists(at) {
		return false, true
	}
	name, e := objectName(at.dir)
	dir, git := at.dir, name
	if hook {
		if !strings.EqualFold(path.Base(name), "hooks") {
			return false, e == 0
		}
		git = path.Dir(name)
	}
	if e != 0 || !strings.EqualFold(path.Base(git), gitName) {
		return false, e == 0
	}
	if hook {
		fd, err := unix.Openat(at.dir, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false, false
		}
		defer unix.Close(fd)
		dir = fd
	}
	if isRepository(dir) {
		return false, true
	}
	return r.note(dir, false)
}

// note adds a directory, or one in which there is a repository. first says that
// it is the first one of the run, ok that it is there.
func (r *repositories) note(dir int, above bool) (first, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key, list := object{st.Dev, st.Ino}, r.held
	if above {
		list = r.above
	}
	if _, known := list[key]; known {
		return false, true
	}
	if r.asked++; r.count() >= r.most && r.asked >= r.most/8 {
		r.forget()
	}
	if r.count() >= r.most {
		return false, false
	}
	fd, e := dup(dir)
	if e != 0 {
		return false, false
	}
	list[key] = fd
	return r.count() == 1, true
}

func (r *repositories) count() int { return len(r.held) + len(r.above) }

// forget drops the directories that were removed and those without any entry
// that matters, which are noted again when they get one.
func (r *repositories) forget() {
	r.asked = 0
	forgetWithout(r.held, headName, "config", "config.worktree", "hooks", "commondir")
	forgetWithout(r.above, gitName)
}

func forgetWithout(list map[object]int, names ...string) {
	for key, fd := range list {
		var st unix.Stat_t
		gone := unix.Fstat(fd, &st) == nil && st.Nlink == 0
		without := func(name string) bool { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT }
		if gone || !slices.ContainsFunc(names, func(name string) bool { return !without(name) }) {
			unix.Close(fd)
			delete(list, key)
		}
	}
}

// noted is one directory to look at.
type noted struct {
	fd    int
	above bool
}

// noted lists what there is to look at. ok is false where the guard holds the list
// for good, in a call to a file system that does not answer.
func (r *repositories) noted() (list []noted, ok bool) {
	if r == nil {
		return nil, true
	}
	for deadline := time.Now().Add(killTimeout); !r.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, false
		}
	}
	defer r.mu.Unlock()
	for _, fd := range r.held {
		list = append(list, noted{fd: fd})
	}
	for _, fd := range r.above {
		list = append(list, noted{fd: fd, above: true})
	}
	return list, true
}

// newRepositoryCure is the setting that leaves new repositories alone.
const newRepositoryCure = "set filesystem.allowNewRepositoryHooks to true"

func newRepositoryRule(what string) string { return `built-in "` + what + `"` }
