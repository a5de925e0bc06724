//go:build unix

package srt

import (
	"os"

	"golang.org/x/sys/unix"
)

// systemTempDir is where temporary files are that no variable names a place for.
const systemTempDir = "/tmp"

// lockDir opens a directory and takes its lock without waiting.
func lockDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Nlink == 0 {
		err = unix.ENOENT // somebody removed it before it was locked
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ownPrivateDir reports whether path is a real directory of this user that
// nobody else can enter.
func ownPrivateDir(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o077 == 0 && st.Uid == uint32(os.Geteuid())
}
