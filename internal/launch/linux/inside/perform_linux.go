package inside

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// The functions of this file perform one handed-over call each. They resolve
// the name, ask whether it is protected and then make the same call on the
// resolved directory.

// makeName makes a new object at a name that is not protected.
func (g *guard) makeName(c *call, operation string, dirfd int, path uint64, create func(at location) unix.Errno) unix.Errno {
	at, e := g.locate(c, dirfd, path)
	if e != 0 {
		return e
	}
	defer at.close()
	if n, ok := g.guarded(at); ok && !exists(at) {
		return g.refuse(c, operation, n, unix.EROFS)
	}
	if e := g.judgeNew(c, operation, at); e != 0 {
		return e
	}
	if e := g.arrive(c, operation, at, false); e != 0 {
		return e
	}
	return g.noted(c, operation, at, create(at))
}

func (g *guard) makeDir(c *call, dirfd int, path uint64, mode uint32) unix.Errno {
	return g.makeName(c, "mkdir", dirfd, path, func(at location) unix.Errno {
		e := g.withUmask(c, func() error { return unix.Mkdirat(at.dir, at.last(), mode) })
		if e == unix.EROFS {
			e = g.creator.makeDir(g, c, at, mode)
		}
		return e
	})
}

func (g *guard) makeNode(c *call, dirfd int, path uint64, mode uint32, dev int) unix.Errno {
	switch mode & unix.S_IFMT { // what the kernel looks at first
	case 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
	case unix.S_IFDIR:
		return unix.EPERM
	default:
		return unix.EINVAL
	}
	return g.makeName(c, "mknod", dirfd, path, func(at location) unix.Errno {
		return g.withUmask(c, func() error { return unix.Mknodat(at.dir, at.last(), mode, dev) })
	})
}

func (g *guard) symlink(c *call, target uint64, dirfd int, path uint64) unix.Errno {
	text, e := g.path(c, target)
	if e == 0 && text == "" {
		e = unix.ENOENT
	}
	if e != 0 {
		return e
	}
	return g.makeName(c, "symlink", dirfd, path, func(at location) unix.Errno {
		if e := cmp.Or(g.linked(c, "symlink", at), g.onTheWay(c, "symlink", at)); e != 0 {
			return e
		}
		return result(unix.Symlinkat(text, at.dir, at.last()))
	})
}

func (g *guard) link(c *call, oldfd int, oldPath uint64, newfd int, newPath uint64, flags int) unix.Errno {
	from, follow, e := g.linkSource(c, oldfd, oldPath, flags)
	if e != 0 {
		return e
	}
	defer from.close()
	if e := from.look(follow != 0); e != 0 {
		return e // before anything is said about the new name
	}
	to, e := g.locate(c, newfd, newPath)
	if e != 0 {
		return e
	}
	defer to.close()
	if n, ok := g.guarded(to); ok && !exists(to) {
		return g.refuse(c, "link", n, unix.EROFS)
	}
	if follow == 0 && from.name != "" && isSymlink(from) {
		if e := cmp.Or(g.linked(c, "link", to), g.onTheWay(c, "link", to)); e != 0 {
			return e
		}
	}
	if e := g.judgeSource(c, from, follow); e != 0 {
		return e
	}
	if e := g.arrive(c, "link", to, false); e != 0 {
		return e
	}
	if g.rules != nil {
		return g.linkJudged(c, from, follow, to)
	}
	if from.name == "" {
		e = result(unix.Linkat(unix.AT_FDCWD, descriptorPath(from.dir), to.dir, to.last(), unix.AT_SYMLINK_FOLLOW))
	} else {
		e = result(unix.Linkat(from.dir, from.last(), to.dir, to.last(), follow))
	}
	if e == unix.EXDEV && follow == 0 && from.name != "" {
		return g.cross(from, to, func(a, b int) error { return unix.Linkat(a, from.last(), b, to.last(), 0) })
	}
	return g.noted(c, "link", to, e)
}

// judgeSource keeps a protected file from getting a name by which it could be
// changed.
func (g *guard) judgeSource(c *call, from location, follow int) unix.Errno {
	if from.name == "" {
		return g.judgeKept(c, "link", from.dir)
	}
	if follow != 0 {
		held, err := unix.Openat(from.dir, from.last(), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return errnoOf(err)
		}
		defer unix.Close(held)
		return g.judgeKept(c, "link", held)
	}
	if n, ok := g.guarded(from); ok && !n.leads && !held(n, from) {
		return g.refuse(c, "link", n, unix.EPERM)
	}
	return 0
}

// linkSource resolves the existing name of a new hard link. Following a
// descriptor's link in /proc is left to the kernel: that is how a file without
// a name gets one.
func (g *guard) linkSource(c *call, dirfd int, path uint64, flags int) (location, int, unix.Errno) {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return location{}, 0, unix.EINVAL
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		if text, e := g.path(c, path); e == 0 && text == "" {
			fd, e := g.descriptor(c, dirfd, 0)
			return location{dir: fd}, 0, e // the object itself
		}
	}
	at, e := g.locate(c, dirfd, path)
	if e != 0 {
		return at, 0, e
	}
	for range maxSymlinks + 1 {
		if flags&unix.AT_SYMLINK_FOLLOW == 0 && !at.slash || !isSymlink(at) {
			return at, 0, 0
		}
		if onProc(at.dir) && !isProcRoot(at.dir) {
			return at, unix.AT_SYMLINK_FOLLOW, 0
		}
		if at, e = g.followLast(c, at); e != 0 {
			return location{}, 0, e
		}
	}
	at.close()
	return location{}, 0, unix.ELOOP
}

// followLast replaces a location that is a symbolic link by what it means. It
// takes ownership of at.
func (g *guard) followLast(c *call, at location) (location, unix.Errno) {
	defer at.close()
	target, e := g.linkTarget(c, at.dir, at.name)
	if e != 0 {
		return location{}, e
	}
	next, e := g.locateFrom(c, at.dir, target)
	next.slash = next.slash || at.slash
	return next, e
}

func (g *guard) rename(c *call, oldfd int, oldPath uint64, newfd int, newPath uint64, flags uint) unix.Errno {
	const keeping = unix.RENAME_NOREPLACE | unix.RENAME_WHITEOUT
	if flags&^(keeping|unix.RENAME_EXCHANGE) != 0 || flags&keeping != 0 && flags&unix.RENAME_EXCHANGE != 0 {
		return unix.EINVAL
	}
	from, e := g.locate(c, oldfd, oldPath)
	if e != 0 {
		return e
	}
	defer from.close()
	to, e := g.locate(c, newfd, newPath)
	if e != 0 {
		if from.closed() {
			return unix.EACCES // the first path comes first
		}
		return e
	}
	defer to.close()
	if n, ok := g.guarded(to); ok {
		return g.refuse(c, "rename", n, unix.EBUSY)
	}
	if n, ok := g.guarded(from); ok && exists(from) && (!n.leads || flags&unix.RENAME_EXCHANGE != 0) {
		return g.refuse(c, "rename", n, unix.EBUSY)
	}
	if e := cmp.Or(g.onTheWay(c, "rename", from), g.onTheWay(c, "rename", to)); e != 0 {
		return e
	}
	if e := g.judgeName(c, "rename", from); e != 0 {
		return e
	}
	if e := g.judgeName(c, "rename", to); e != 0 {
		return e
	}
	if e := g.placed(c, from, to, flags&unix.RENAME_EXCHANGE != 0); e != 0 {
		return e
	}
	if e := g.arrive(c, "rename", to, true); e != 0 {
		return e
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		if e := g.placed(c, to, from, true); e != 0 {
			return e
		}
		if e := g.arrive(c, "rename", from, true); e != 0 {
			return e
		}
	}
	e = result(unix.Renameat2(from.dir, from.last(), to.dir, to.last(), flags))
	if e == unix.EXDEV && g.rules == nil {
		return g.cross(from, to, func(a, b int) error { return unix.Renameat2(a, from.last(), b, to.last(), flags) })
	}
	return g.notedRename(c, from, to, e)
}

func result(err error) unix.Errno {
	if err != nil {
		return errnoOf(err)
	}
	return 0
}

func exists(at location) bool {
	var st unix.Stat_t
	return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func isSymlink(at location) bool {
	var st unix.Stat_t
	return unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}
