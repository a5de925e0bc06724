//go:build unix

package policy

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func (osFS) Lstat(path string) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Lstat(path, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Info{}, &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		break
	}
	info := Info{Mode: fs.FileMode(st.Mode & 0o777), UID: int(st.Uid), Dev: uint64(st.Dev), Ino: uint64(st.Ino)}
	if st.Mode&unix.S_ISVTX != 0 {
		info.Mode |= fs.ModeSticky
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		info.Kind = Dir
	case unix.S_IFREG:
		info.Kind = File
	case unix.S_IFLNK:
		info.Kind = Symlink
	default:
		info.Kind = Other
	}
	return info, nil
}

func (osFS) Searchable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

func isNotDir(err error) bool  { return errors.Is(err, unix.ENOTDIR) }
func isTooLong(err error) bool { return errors.Is(err, unix.ENAMETOOLONG) }

const openNonblock = unix.O_NONBLOCK
