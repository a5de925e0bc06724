package inside

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The standard streams come from the host together with the host's mounts: who
// holds a directory can open everything below it, and who holds a file opened
// for reading can change its mode and open it once more for writing through
// /proc/self/fd. So a directory is refused, and a file that the caller opened
// for reading is opened again in the sandbox's own tree, where the policy holds.
// Files opened for writing, pipes, sockets and devices are the caller's gift.

// streams are the standard streams that need a replacement.
type streams []stream

type stream struct {
	fd   int // 0, 1 or 2
	path string
	stat unix.Stat_t
	// The caller's open file and the command's, once there is one. The caller
	// expects the position in its file to move with what the command reads.
	theirs, ours int
}

var streamNames = [...]string{"standard input", "standard output", "standard error"}

// inspectStreams looks at the streams while the host's tree is still the root,
// so that paths are those that the caller means.
func inspectStreams() (streams, error) {
	var all streams
	for fd := range streamNames {
		s := stream{fd: fd, theirs: -1, ours: -1}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil {
			err = unix.Fstat(fd, &s.stat)
		}
		if err != nil {
			continue // a closed stream leads nowhere
		}
		kind := s.stat.Mode & unix.S_IFMT
		if kind == unix.S_IFREG && (flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0 || s.stat.Nlink == 0) {
			continue
		}
		if kind != unix.S_IFREG && kind != unix.S_IFDIR && kind != unix.S_IFBLK {
			continue
		}
		if s.path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
			return nil, fmt.Errorf("looking at %s: %w", streamNames[fd], err)
		}
		if kind == unix.S_IFDIR {
			return nil, fmt.Errorf("passing %s on: it is the directory %s, through which the command could write past every rule; redirect it from something else", streamNames[fd], s.path)
		}
		all = append(all, s)
	}
	return all, nil
}

// confine replaces the streams by the same files in the finished sandbox.
func (all streams) confine() error {
	for k := range all {
		s := &all[k]
		err := s.replace()
		if err == nil || s.harmless() {
			continue
		}
		return fmt.Errorf("opening %s again inside the sandbox, so that the command can only read it: %s: %w; pass it through a pipe, as in: cat FILE | srt COMMAND", streamNames[s.fd], s.path, err)
	}
	return nil
}

// harmless reports whether the command could not change the file by any way of
// opening it: it belongs to somebody else who lets nobody write, or is one of
// /proc that is for reading only; their modes cannot be changed.
func (s *stream) harmless() bool {
	return int(s.stat.Uid) != os.Geteuid() && s.stat.Mode&0o022 == 0 || onProc(s.fd) && s.stat.Mode&0o222 == 0
}

func (s *stream) replace() error {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, s.path, &how)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != s.stat.Dev || st.Ino != s.stat.Ino) {
		err = errors.New("the sandbox shows something else there")
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	}
	if err == nil {
		err = copyPosition(fd, s.fd)
	}
	if err == nil {
		s.theirs, err = unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, controlFD+1)
	}
	if err == nil {
		err = unix.Dup3(fd, s.fd, 0)
	}
	s.ours = fd
	return err
}

// restore moves the caller's position to where the command stopped.
func (all streams) restore() {
	for _, s := range all {
		if s.theirs >= 0 && s.ours >= 0 {
			_ = copyPosition(s.theirs, s.ours)
		}
	}
}

func copyPosition(to, from int) error {
	at, err := unix.Seek(from, 0, unix.SEEK_CUR)
	if err == nil {
		_, err = unix.Seek(to, at, unix.SEEK_SET)
	}
	return err
}
