package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openWithoutLinks opens a path on which nothing is a link any more: a command of
// another run may have put one there since it was looked at.
func openWithoutLinks(path string, flags int, mode uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags), Mode: mode, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
		}
	}
}

// protectedLog names the file of the log if it has a name: a command must not
// be able to change what is written about it.
func protectedLog(f *os.File) []string {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	path := ""
	_ = raw.Control(func(fd uintptr) { path, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	named, err1 := os.Lstat(path)
	open, err2 := f.Stat()
	if err1 != nil || err2 != nil || !open.Mode().IsRegular() || !os.SameFile(named, open) {
		return nil
	}
	return []string{path}
}
