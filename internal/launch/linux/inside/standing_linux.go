package inside

import (
	"errors"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/protected"
)

// In the directories that were there before the run no protected name may appear,
// whatever way it comes: made there, or with a tree that takes the place of such a
// directory. All that makes or moves names goes through the guard's one thread, so
// that nothing changes between a look here and the call that follows.

// keptOut returns the protected name at a location in such a directory.
func (g *guard) keptOut(at location) (guarded, bool) {
	if g.standing == nil || !protected.Candidate(at.name) {
		return guarded{}, false
	}
	dir, unknown := standingPath(at.dir)
	ban, ok := g.standing.Forbids(dir, protected.IdentityOf(at.dir), at.name)
	switch {
	case ok:
	case unknown:
		ban = protected.Ban{Entry: at.name, Path: path.Join(dir, at.name)}
	default:
		return guarded{}, false
	}
	n := GuardedName{Dir: dir, Name: at.name, Rule: ruleOf(ban), Cure: ban.Cure, Target: ban.Path}
	return guarded{GuardedName: n, there: exists(at), leads: ban.Path != path.Join(dir, at.name)}, true
}

// movedOut says why nobody can tell what a name would be beside.
const movedOut = "a link or a directory in one that was moved out of its write root"

// standingPath returns the path of a directory, empty if there is none that a
// search could have found. It is unknown where the directory was moved out of the
// mount that it was opened through: then the kernel shows its path in its file system.
func standingPath(dir int) (name string, unknown bool) {
	var st, there unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return "", true
	}
	name, err := os.Readlink(descriptorPath(dir))
	switch {
	case st.Nlink == 0, errors.Is(err, unix.ENAMETOOLONG):
		return "", false
	case err != nil:
		return "", true
	}
	return name, unix.Lstat(name, &there) != nil || there.Dev != st.Dev || there.Ino != st.Ino
}

func ruleOf(b protected.Ban) string { return `built-in "` + b.Entry + `"` }

// linked refuses a symbolic link in the place of a directory.
func (g *guard) linked(c *call, operation string, at location) unix.Errno {
	if g.standing == nil || exists(at) {
		return 0
	}
	dir, unknown := standingPath(at.dir)
	name := path.Join(dir, at.name)
	if unknown {
		return g.ban(c, operation, unseen(name, movedOut))
	}
	if ban, ok := g.standing.ForbidsLink(name); ok {
		return g.ban(c, operation, ban)
	}
	return 0
}

func (g *guard) ban(c *call, operation string, b protected.Ban) unix.Errno {
	g.send(c, operation, b.Path, b.Path, ruleOf(b), b.Cure)
	return unix.EPERM
}

// placed judges what a rename brings to the place of a directory that was there
// before the run.
func (g *guard) placed(c *call, from, to location, exchange bool) unix.Errno {
	if g.standing == nil {
		return 0
	}
	var st unix.Stat_t
	if unix.Fstatat(from.dir, from.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0 // the kernel has an error for it
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFLNK {
		return 0
	}
	if kind == unix.S_IFLNK && !exchange && isDirectoryAt(to) {
		return 0 // which no link replaces
	}
	dir, unknown := standingPath(to.dir)
	name := path.Join(dir, to.name)
	if unknown {
		return g.ban(c, "rename", unseen(name, movedOut))
	}
	if !g.standing.Stood(name) {
		return 0
	}
	look := &placing{standing: g.standing, until: time.Now().Add(maxPlacing)}
	if ban, ok := look.object(from.dir, from.name, kind, name); ok {
		return g.ban(c, "rename", ban)
	}
	return 0
}

func isDirectoryAt(at location) bool {
	var st unix.Stat_t
	return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// maxPlacing bounds the look at one tree, for which everything else waits.
const maxPlacing = 2 * time.Second

// placing looks at a tree as it would be at another path.
type placing struct {
	standing *protected.Directories
	until    time.Time
}

// object judges one object of the tree that comes to a path where a directory was.
func (p *placing) object(dir int, name string, kind uint32, target string) (protected.Ban, bool) {
	switch kind {
	case unix.S_IFLNK:
		return p.standing.ForbidsLink(target)
	case unix.S_IFDIR:
	default:
		return protected.Ban{}, false
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return unseen(target, "a directory that cannot be read, in the place of another"), true
	}
	defer unix.Close(fd)
	return p.entries(fd, target)
}

func unseen(target, why string) protected.Ban { return protected.Ban{Entry: why, Path: target} }

// entries judges what is in a directory.
func (p *placing) entries(fd int, target string) (protected.Ban, bool) {
	var buf [8 << 10]byte
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || time.Now().After(p.until) {
			return unseen(target, "a directory that cannot be looked through, in the place of another"), true
		}
		if n == 0 {
			return protected.Ban{}, false
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if ban, ok := p.entry(fd, name, target); ok {
				return ban, true
			}
		}
	}
}

func (p *placing) entry(fd int, name, target string) (protected.Ban, bool) {
	if ban, ok := p.standing.Forbids(target, protected.Identity{}, name); ok {
		return ban, true
	}
	below := path.Join(target, name)
	var st unix.Stat_t
	if !p.standing.Stood(below) || unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return protected.Ban{}, false
	}
	return p.object(fd, name, st.Mode&unix.S_IFMT, below)
}
