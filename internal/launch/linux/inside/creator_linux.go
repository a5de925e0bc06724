package inside

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// creator lets the command create paths that an allowWrite entry names and that
// did not exist when the sandbox was built. The directories that hold them are
// read-only for the command; the creator reaches them through a writable copy
// of their mount that only it ever has, and exposes the finished object.
type creator struct{ paths []CreatablePath }

func newCreator(paths []CreatablePath) *creator { return &creator{paths: paths} }

// find returns the entry that full is, or leads to. final tells which.
func (k *creator) find(full string) (entry CreatablePath, final, ok bool) {
	for _, p := range k.paths {
		if full == p.Path {
			return p, true, true
		}
		if Beneath(full, p.Path) && Beneath(p.Parent, full) {
			entry, ok = p, true
		}
	}
	return entry, false, ok
}

// makeDir answers a mkdir that a read-only mount refused.
func (k *creator) makeDir(g *guard, c *call, at location, mode uint32) unix.Errno {
	full, writable, e := k.open(g, at)
	if e != 0 {
		return e
	}
	defer unix.Close(writable)
	if e := g.withUmask(c, func() error { return unix.Mkdirat(writable, at.name, mode) }); e != 0 {
		return e
	}
	return k.expose(g, full)
}

// create answers an open that a read-only mount refused to let create its file.
func (k *creator) create(o *opening) (int, unix.Errno) {
	full, writable, e := k.open(o.g, o.at)
	if e != 0 {
		return -1, e
	}
	defer unix.Close(writable)
	if _, final, _ := k.find(full); !final {
		return -1, unix.EROFS // only directories may appear on the way
	}
	fd := -1
	e = o.g.withUmask(o.c, func() error {
		var err error
		fd, err = unix.Openat(writable, o.at.name, o.flags|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, o.mode)
		return err
	})
	if e == 0 {
		if e = k.expose(o.g, full); e != 0 {
			unix.Close(fd)
		}
	}
	return fd, e
}

// open returns a writable view of the directory at a location that an entry
// covers, and the full path of the location.
func (k *creator) open(g *guard, at location) (string, int, unix.Errno) {
	if len(k.paths) == 0 {
		return "", -1, unix.EROFS
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", at.dir))
	if err != nil {
		return "", -1, unix.EROFS
	}
	full := path.Join(dir, at.name)
	if _, _, ok := k.find(full); !ok {
		return "", -1, unix.EROFS
	}
	fd := -1
	err = g.privileged(func() error {
		var e error
		fd, e = writableCopy(at.dir)
		return e
	})
	if err != nil {
		return "", -1, unix.EROFS
	}
	return full, fd, 0
}

// writableCopy returns a detached mount of dir without the read-only flag. The
// flag can be cleared only where this sandbox set it: what the host has
// read-only stays so.
func writableCopy(dir int) (int, error) {
	fd, err := cloneObject(dir)
	if err != nil {
		return -1, err
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: uint64(attrNoSuid | attrNoDev), Attr_clr: uint64(attrReadOnly)})
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// expose mounts the finished object writable at its own path. Directories on
// the way to it stay read-only.
func (k *creator) expose(g *guard, full string) unix.Errno {
	if _, final, _ := k.find(full); !final {
		return 0
	}
	err := g.privileged(func() error {
		target, err := openObject(full)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		fd, err := writableCopy(target)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return attach(fd, target)
	})
	if err != nil {
		return unix.EROFS
	}
	return 0
}
