package protected

import "golang.org/x/sys/unix"

// IdentityOf returns the identity of an open directory.
func IdentityOf(fd int) Identity {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_BTIME, &st) != nil {
		return Identity{}
	}
	return identity(&st)
}

// IdentityAt returns the identity of the directory at a path.
func IdentityAt(path string) Identity {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_BTIME, &st) != nil {
		return Identity{}
	}
	return identity(&st)
}

func identity(st *unix.Statx_t) Identity {
	id := Identity{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id
}
