package inside

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/protected"
)

// A mount holds the object that it was made on, and a guarded name the directory
// that it was seen in. A process of the host may replace either while the command
// runs: git writes a new configuration beside the old one, a checkout removes a
// directory and makes it again, an editor makes one that was missing. So what is
// protected is known by its path, too, whatever is there.

// keptPaths are the protected paths.
type keptPaths struct {
	names, folded map[string]GuardedName
	above         map[string]GuardedName // the directories on the way to one
	least         int                    // the length of the shortest
}

// newKeptPaths leaves those with an object out where no mount is made on it: other
// rules hold them by path there.
func newKeptPaths(names []GuardedName, mounts bool) *keptPaths {
	k := &keptPaths{names: map[string]GuardedName{}, folded: map[string]GuardedName{}, above: map[string]GuardedName{}, least: unix.PathMax}
	for _, n := range names {
		if n.Exists && !mounts {
			continue
		}
		k.names[n.Target] = n
		if n.Fold {
			k.folded[strings.ToLower(n.Target)] = n
		}
		k.least = min(k.least, len(n.Target))
		for dir := path.Dir(n.Target); (mounts || n.Dir == "") && dir != "/"; dir = path.Dir(dir) {
			k.above[dir] = n
		}
	}
	return k
}

// at returns the protected name that a path is.
func (k *keptPaths) at(name string) (GuardedName, bool) {
	if len(name) < k.least {
		return GuardedName{}, false
	}
	if n, ok := k.names[name]; ok {
		return n, true
	}
	n, ok := k.folded[strings.ToLower(name)]
	return n, ok
}

// keptAt returns the protected name that a location is by its path, or lies
// beneath. What has a mount of its own is left to that.
func (g *guard) keptAt(at location) (guarded, bool) {
	if at.dots() {
		return guarded{}, false
	}
	dir, err := g.pathOf(at.dir)
	if err != nil || !path.IsAbs(dir) {
		return guarded{}, false // nobody could make anything there
	}
	return g.keptIn(dir, at.name)
}

// pathOf returns what the kernel calls an open object. Each creation asks for it, so
// it does not walk down from the root.
func (g *guard) pathOf(fd int) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(g.descriptors, strconv.Itoa(fd), buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (g *guard) keptIn(dir, name string) (guarded, bool) {
	n, ok := g.kept.at(join(dir, name))
	within := false
	if !ok {
		n, within = g.keptAbove(dir)
		ok = within
	}
	n.Dir, n.Name = dir, name
	return guarded{GuardedName: n, within: within}, ok
}

// keptAbove returns the protected name that a directory is, or lies beneath.
func (g *guard) keptAbove(dir string) (GuardedName, bool) {
	for end := 1; end < len(dir); {
		start := end
		if next := strings.IndexByte(dir[start:], '/'); next >= 0 {
			end = start + next
		} else {
			end = len(dir)
		}
		if n, ok := g.keptPath(dir[:end], dir[start:end]); ok && !isMountPoint(dir[:end]) {
			return n, true
		}
		end++
	}
	return GuardedName{}, false
}

// keptPath returns the protected name that a path with a last component is.
func (g *guard) keptPath(full, last string) (GuardedName, bool) {
	if n, ok := g.kept.at(full); ok {
		return n, true
	}
	if g.standing == nil || !protected.Candidate(last) {
		return GuardedName{}, false
	}
	ban, ok := g.standing.Forbids(path.Dir(full), protected.Identity{}, last)
	if !ok || ban.Path != full {
		return GuardedName{}, false
	}
	return GuardedName{Rule: ruleOf(ban), Cure: ban.Cure, Target: full}, true
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

func isMountPoint(name string) bool {
	var above, there unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, path.Dir(name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &above) == nil &&
		unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &there) == nil && above.Mnt_id != there.Mnt_id
}

// onTheWay refuses to exchange a directory on the way to a protected name, whose
// own mount is gone, for something else.
func (g *guard) onTheWay(c *call, operation string, at location) unix.Errno {
	if len(g.kept.above) == 0 || at.dots() {
		return 0
	}
	name, e := nameOf(at)
	n, ok := g.kept.above[name]
	if e != 0 || !ok || isMountPoint(name) || !changeable(at, false) {
		return 0 // the kernel refuses it, or nothing is in danger
	}
	g.reportPath(c, operation, name, n.Rule, n.Cure)
	if exists(at) {
		return unix.EBUSY
	}
	return unix.EPERM
}

// judgeKept judges a change to an object that the guard holds, by the name that it
// was found under.
func (g *guard) judgeKept(c *call, operation string, held int) unix.Errno {
	name, e := objectName(held)
	if e != 0 || name == "" {
		return e
	}
	at := location{name: path.Base(name)}
	n, ok := g.keptIn(path.Dir(name), at.name)
	if !ok {
		dir, err := openObject(path.Dir(name))
		switch {
		case errors.Is(err, unix.ENOENT):
			return 0 // the directory has another name by now, and its names are judged by that
		case err != nil:
			return unix.EACCES
		}
		at.dir = dir
		defer at.close()
		if at.id, _, e = g.identify(dir); e != 0 {
			return e
		}
		n, ok = g.guarded(at)
	}
	if !ok || n.leads || isMountPoint(name) {
		return 0
	}
	return g.refuse(c, operation, n, unix.EROFS)
}
