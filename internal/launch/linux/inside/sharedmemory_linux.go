package inside

import (
	"path"

	"golang.org/x/sys/unix"
)

// sharedMemoryDir is where POSIX shared memory and semaphores are files, see
// shm_overview(7). Without a file system of its own the command shares it with
// every program of the machine.
const sharedMemoryDir = "/dev/shm"

// sharedMemory are the files in that directory that the command made. It may
// make more, and change these; all others are somebody else's.
type sharedMemory map[object]bool

func (m sharedMemory) has(st *unix.Stat_t) bool { return m[object{st.Dev, st.Ino}] }

func (m sharedMemory) mayName(name string, at location) bool {
	if path.Dir(name) != sharedMemoryDir {
		return false
	}
	var st unix.Stat_t
	err := unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == unix.ENOENT || err == nil && m.has(&st)
}

// add records a file that the guard just made for the command.
func (m sharedMemory) add(fd int) {
	var st unix.Stat_t
	if name, e := objectName(fd); e == 0 && path.Dir(name) == sharedMemoryDir && unix.Fstat(fd, &st) == nil {
		m[object{st.Dev, st.Ino}] = true
	}
}

// drop forgets a file whose last name goes away: its number may come back for
// somebody else's.
func (m sharedMemory) drop(at location) {
	var st unix.Stat_t
	if len(m) > 0 && unix.Fstatat(at.dir, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink == 1 {
		delete(m, object{st.Dev, st.Ino})
	}
}
