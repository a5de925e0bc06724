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
// Sockets are checked in the same spirit: one that can be aimed elsewhere lives in
// the host's network, past every filter; a connected Unix socket cannot. Files
// opened for writing, pipes and devices are the caller's gift.

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
		replace, err := s.inspect(flags)
		if err != nil {
			return nil, &stageError{stage: "streams", err: err}
		}
		if replace {
			all = append(all, s)
		}
	}
	return all, nil
}

// inspect reports whether the stream must be replaced, or why it cannot be
// passed on.
func (s *stream) inspect(flags int) (replace bool, err error) {
	name := streamNames[s.fd]
	switch s.stat.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		if !staysConnected(s.fd) {
			return false, fmt.Errorf("passing %s on: it is a socket that the command could connect to anything; pass it through a pipe", name)
		}
		return false, nil
	case unix.S_IFREG:
		readable := flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0
		if !readable || s.stat.Nlink == 0 {
			return false, nil
		}
	case unix.S_IFDIR, unix.S_IFBLK:
	default:
		return false, nil
	}
	if s.path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.fd)); err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	if s.stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return false, fmt.Errorf("passing %s on: it is the directory %s, through which the command could write past every rule; redirect it from something else", name, s.path)
	}
	return true, nil
}

// staysConnected reports whether a socket is bound to its other end for good. A
// TCP connection is not: connect(2) can end it and begin another.
func staysConnected(fd int) bool {
	family, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err1 != nil || err2 != nil || family != unix.AF_UNIX || kind != unix.SOCK_STREAM && kind != unix.SOCK_SEQPACKET {
		return false
	}
	if listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && listening != 0 {
		return true
	}
	_, err := unix.Getpeername(fd)
	return err == nil
}

// confine replaces the streams by the same files in the finished sandbox.
func (all streams) confine() error {
	for k := range all {
		s := &all[k]
		err := s.replace()
		if err == nil || s.harmless() {
			continue
		}
		err = fmt.Errorf("opening %s again inside the sandbox, so that the command can only read it: %s: %w; pass it through a pipe, as in: cat FILE | srt COMMAND", streamNames[s.fd], s.path, err)
		return &stageError{stage: "streams", err: err}
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
