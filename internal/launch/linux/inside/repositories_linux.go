package inside

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// repositories are the directories that became git directories, or are about to,
// while the command runs. Each is held by a descriptor, which follows it wherever
// it is moved.
//
// git takes a directory for a repository when it has an entry HEAD, and objects
// and refs of its own or of the directory that its commondir names. The guard
// performs every call that makes a name, so no directory gets the last of these
// unseen.
type repositories struct {
	mu    sync.Mutex
	held  map[object]int // O_PATH descriptors
	most  int
	asked int // since the last look for those that are gone
}

// maxRepositories bounds the descriptors. A clone has four directories with a
// HEAD, three of them of logs and remote branches.
const maxRepositories = 8192

func newRepositories() *repositories {
	r := &repositories{held: map[object]int{}, most: maxRepositories}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		r.most = min(r.most, int(min(limit.Cur, 1<<20)/2))
	}
	return r
}

// headName is the entry without which there is no repository.
const headName = "HEAD"

// repositoryPart reports whether a name is one that makes a repository. Case is
// ignored: some file systems do.
func repositoryPart(name string) bool {
	if name == "" || !strings.Contains("HROChroc", name[:1]) {
		return false
	}
	for _, part := range []string{headName, "refs", "objects", "commondir"} {
		if strings.EqualFold(name, part) {
			return true
		}
	}
	return false
}

// arrive is asked before a name is made. It notes the directory that may become
// a repository by that; where no more can be noted, the name is refused.
func (g *guard) arrive(c *call, operation string, at location) unix.Errno {
	if g.repositories == nil || !repositoryPart(at.name) || exists(at) {
		return 0
	}
	if !strings.EqualFold(at.name, headName) && !exists(location{dir: at.dir, name: headName}) {
		return 0 // HEAD is still to come
	}
	first, ok := g.repositories.note(at.dir)
	name, _ := nameOf(at)
	if !ok {
		g.reportPath(c, operation, name, newRepositoryRule("too many repositories made in one run"), newRepositoryCure)
		return unix.EPERM
	}
	if first {
		_ = SendMessage(g.control, MessageRepository, []byte(name))
	}
	return 0
}

// note adds a directory. first says that it is the first one of the run, ok that
// it is there.
func (r *repositories) note(dir int) (first, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := object{st.Dev, st.Ino}
	if _, known := r.held[key]; known {
		return false, true
	}
	if r.asked++; len(r.held) >= r.most && r.asked >= r.most/8 {
		r.forget()
	}
	if len(r.held) >= r.most {
		return false, false
	}
	fd, e := dup(dir)
	if e != 0 {
		return false, false
	}
	r.held[key] = fd
	return len(r.held) == 1, true
}

// forget drops the directories that were removed and those without a HEAD, which
// are noted again when they get one.
func (r *repositories) forget() {
	r.asked = 0
	for key, fd := range r.held {
		var st unix.Stat_t
		gone := unix.Fstat(fd, &st) == nil && st.Nlink == 0
		if gone || unix.Fstatat(fd, headName, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
			unix.Close(fd)
			delete(r.held, key)
		}
	}
}

// noted reports whether there is anything to look at.
func (r *repositories) noted() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held) > 0
}

// newRepositoryCure is the setting that leaves new repositories alone.
const newRepositoryCure = "set filesystem.allowNewRepositoryHooks to true"

func newRepositoryRule(what string) string { return `built-in "` + what + `"` }
