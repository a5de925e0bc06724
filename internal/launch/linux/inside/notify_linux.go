package inside

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification mirrors struct seccomp_notif of <linux/seccomp.h>.
type notification struct {
	ID    uint64
	PID   uint32 // of the calling thread, in the receiver's PID namespace
	Flags uint32
	Nr    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// notificationReply mirrors struct seccomp_notif_resp.
type notificationReply struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// notificationFD mirrors struct seccomp_notif_addfd.
type notificationFD struct {
	ID         uint64
	Flags      uint32
	SrcFD      uint32
	NewFD      uint32
	NewFDFlags uint32
}

const (
	notifAddFDSet     = 1 // SECCOMP_ADDFD_FLAG_SETFD
	notifAddFDSend    = 2 // SECCOMP_ADDFD_FLAG_SEND, Linux 5.14
	notifSyncWakeUp   = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6
	ioctlNotifRecv    = 0xc0502100
	ioctlNotifSend    = 0xc0182101
	ioctlNotifIDValid = 0x40082102
	ioctlNotifAddFD   = 0x40182103
	ioctlNotifFlags   = 0x40082104
)

// listener is the receiving end of handed-over system calls.
type listener struct {
	fd int
	// patient says that no signal but a deadly one ends the wait of a caller whose
	// call was received.
	patient    bool
	processors *processors
}

func newListener(fd int) *listener {
	// An older kernel refuses the flag; the guard is then slower, not weaker.
	_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), ioctlNotifFlags, notifSyncWakeUp)
	return &listener{fd: fd, patient: knowsFilterFlags(listenFlags), processors: usualProcessors()}
}

var errNoCallers = errors.New("no process is left under the filter")

// receive waits for the next call.
func (l *listener) receive(n *notification) error {
	for {
		ready, err := l.wait()
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		*n = notification{} // the kernel insists on zeroes
		_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifRecv, uintptr(unsafe.Pointer(n)))
		switch e {
		case 0:
			return nil
		case unix.EINTR, unix.ENOENT: // ENOENT: the caller died meanwhile
		default:
			return fmt.Errorf("receiving a system call: %w", e)
		}
	}
}

// wait sleeps until there is a call. It is no timed wait: setting the clock costs a
// virtual machine more than the wait itself.
func (l *listener) wait() (bool, error) {
	poll := [1]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	_, _, e := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll[0])), 1, 0, 0, 0, 0)
	switch {
	case e == unix.EINTR:
		return false, nil
	case e != 0:
		return false, fmt.Errorf("waiting for a system call: %w", e)
	case poll[0].Revents&unix.POLLIN != 0:
		return true, nil
	case poll[0].Revents&unix.POLLHUP != 0:
		return false, errNoCallers
	}
	return false, nil
}

// valid reports whether the call is still waiting for its answer. Whatever was
// read through the caller's PID before counts only if this holds afterwards.
func (l *listener) valid(id uint64) bool {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifIDValid, uintptr(unsafe.Pointer(&id)))
	return e == 0
}

// answer ends the call with a return value or an error number.
func (l *listener) answer(id uint64, val int64, e unix.Errno) {
	r := notificationReply{ID: id, Val: val, Error: -int32(e)}
	// ENOENT means that the caller died, EINPROGRESS cannot happen: each call is answered once.
	_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifSend, uintptr(unsafe.Pointer(&r)))
}

// proceed lets the kernel perform the call as if there were no guard.
func (l *listener) proceed(id uint64) {
	r := notificationReply{ID: id, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifSend, uintptr(unsafe.Pointer(&r)))
}

// addFD installs fd in the caller and returns its number there. The call still
// waits for its answer.
func (l *listener) addFD(id uint64, fd int, closeOnExec bool) (int, unix.Errno) {
	add := notificationFD{ID: id, SrcFD: uint32(fd)}
	if closeOnExec {
		add.NewFDFlags = unix.O_CLOEXEC
	}
	n, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifAddFD, uintptr(unsafe.Pointer(&add)))
	return int(n), e
}

// giveFD installs fd in the caller as the result of the call, and closes it here
// before the caller goes on. Both have the same open file: as long as one of them
// keeps it, its locks hold, and no program runs from a file that was written. When
// giveFD returns an error the call still waits for its answer, and fd is open.
func (l *listener) giveFD(c *call, fd int, closeOnExec bool) unix.Errno {
	if !l.patient {
		return l.giveAtOnce(c, fd, closeOnExec)
	}
	return l.giveInSteps(c, fd, closeOnExec)
}

func (l *listener) giveInSteps(c *call, fd int, closeOnExec bool) unix.Errno {
	held, ok := l.processors.hold(c.pid)
	n, e := l.addFD(c.id, fd, closeOnExec)
	if ok {
		l.processors.release(held)
	}
	if e != 0 && e != unix.ENOENT { // the caller died
		return e
	}
	unix.Close(fd)
	if e == 0 {
		l.answer(c.id, int64(n), 0)
	}
	return 0
}

// giveAtOnce is for kernels where a signal could end the call between two steps
// and leave the caller with a descriptor that it does not know. The caller may
// go on before fd is closed here.
func (l *listener) giveAtOnce(c *call, fd int, closeOnExec bool) unix.Errno {
	add := notificationFD{ID: c.id, Flags: notifAddFDSend, SrcFD: uint32(fd)}
	if closeOnExec {
		add.NewFDFlags = unix.O_CLOEXEC
	}
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifAddFD, uintptr(unsafe.Pointer(&add)))
	if e == unix.EINVAL { // before Linux 5.14
		return l.giveInSteps(c, fd, closeOnExec)
	}
	if e == 0 || e == unix.ENOENT {
		unix.Close(fd)
		return 0
	}
	return e
}

// answerInPlace exchanges the caller's descriptor n for fd and ends the call
// with success.
func (l *listener) answerInPlace(id uint64, fd, n int, closeOnExec bool) {
	add := notificationFD{ID: id, Flags: notifAddFDSet, SrcFD: uint32(fd), NewFD: uint32(n)}
	if closeOnExec {
		add.NewFDFlags = unix.O_CLOEXEC
	}
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(l.fd), ioctlNotifAddFD, uintptr(unsafe.Pointer(&add)))
	l.answer(id, 0, e)
}
