package inside

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Two write roots are two mounts, and the kernel refuses to rename or link from
// one mount to another even when both show the same file system. Programs do
// not expect that inside what looks like one tree. When the kernel answers
// EXDEV, the guard makes the call once more through a mount that holds both
// directories and that only it has, provided the command may write to both.

// cross repeats a call on two directories seen through one mount. It returns
// EXDEV when there is no such mount or one of the places is not the command's
// to change.
func (g *guard) cross(from, to location, again func(from, to int) error) unix.Errno {
	if !changeable(from, true) || !changeable(to, false) {
		return unix.EXDEV
	}
	common, fromPath, toPath := commonDir(from.dir, to.dir)
	if common == "" {
		return unix.EXDEV
	}
	mount := -1
	err := g.privileged(func() error {
		dir, err := openObject(common)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		mount, err = writableCopy(dir)
		return err
	})
	if err != nil {
		return unix.EXDEV
	}
	defer unix.Close(mount)
	fromDir, e1 := sameDir(mount, fromPath, from.dir)
	toDir, e2 := sameDir(mount, toPath, to.dir)
	defer unix.Close(fromDir)
	defer unix.Close(toDir)
	if e1 != nil || e2 != nil {
		return unix.EXDEV
	}
	return result(again(fromDir, toDir))
}

// changeable reports whether the command may change names in the directory of a
// location. An existing name must not be a mount of its own: that is how single
// places are denied.
func changeable(at location, mustExist bool) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(at.dir, &fs) != nil || fs.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	var dir, name unix.Statx_t
	if unix.Statx(at.dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &dir) != nil {
		return false
	}
	err := unix.Statx(at.dir, at.name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &name)
	if err == unix.ENOENT && !mustExist {
		return true
	}
	return err == nil && name.Mnt_id == dir.Mnt_id && name.Dev_major == dir.Dev_major && name.Dev_minor == dir.Dev_minor
}

// commonDir returns the deepest directory above both, and the ways down from it.
func commonDir(a, b int) (common, toA, toB string) {
	pathA, err1 := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", a))
	pathB, err2 := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", b))
	if err1 != nil || err2 != nil {
		return "", "", ""
	}
	as, bs := components(pathA), components(pathB)
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return "/" + strings.Join(as[:n], "/"), strings.Join(as[n:], "/"), strings.Join(bs[n:], "/")
}

// sameDir opens a directory below the mount and checks that it is the one that
// the call resolved to.
func sameDir(mount int, path string, want int) (int, error) {
	if path == "" {
		path = "."
	}
	fd, err := unix.Openat2(mount, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return -1, err
	}
	var a, b unix.Stat_t
	if unix.Fstat(fd, &a) != nil || unix.Fstat(want, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, nil
}
