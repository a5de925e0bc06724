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
	if err := retry(func() error { return unix.Lstat(path, &st) }); err != nil {
		return Info{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	info := Info{Kind: kindOfMode(uint32(st.Mode)), Mode: fs.FileMode(st.Mode & 0o777), UID: int(st.Uid), Dev: uint64(st.Dev), Ino: uint64(st.Ino)}
	if st.Mode&unix.S_ISVTX != 0 {
		info.Mode |= fs.ModeSticky
	}
	return info, nil
}

func kindOfMode(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFREG:
		return File
	case unix.S_IFLNK:
		return Symlink
	}
	return Other
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}

// passing reports whether an error may be gone at the next try.
func passing(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range []error{unix.EIO, unix.ESTALE, unix.EMFILE, unix.ENFILE, unix.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func isNotDir(err error) bool  { return errors.Is(err, unix.ENOTDIR) }
func isTooLong(err error) bool { return errors.Is(err, unix.ENAMETOOLONG) }

const openNonblock = unix.O_NONBLOCK
