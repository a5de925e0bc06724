package linux

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompFacts are what the kernel's seccomp can do for this process.
type seccompFacts struct {
	filter       error // refusing and killing
	notification error // handing calls over
	// killableWait (Linux 5.19) keeps signals from a caller that waits for its
	// answer, answerWithFD (5.14) passes a descriptor and the answer in one step,
	// syncWakeUp (6.6) makes answers fast.
	killableWait, answerWithFD, syncWakeUp bool
}

// Requests of <linux/seccomp.h> that golang.org/x/sys does not have.
const (
	ioctlNotifAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	ioctlNotifFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

func probeSeccomp() seccompFacts {
	var s seccompFacts
	for _, action := range []uint32{unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_KILL_PROCESS} {
		if s.filter = actionAvailable(action); s.filter != nil {
			s.notification = s.filter
			return s
		}
	}
	if s.notification = actionAvailable(unix.SECCOMP_RET_USER_NOTIF); s.notification != nil {
		return s
	}
	// The flags are looked at before the program, which is not there.
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0)
	s.killableWait = e == unix.EFAULT
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.probeListener()
	}()
	<-done
	return s
}

func actionAvailable(action uint32) error {
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); e != 0 {
		return e
	}
	return nil
}

// probeListener installs a filter that allows everything on a thread that ends
// with this goroutine, and asks its listener what it can do.
func (s *seccompFacts) probeListener() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The process's first thread would never end: hold it and take another.
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.probeListener()
		}()
		<-done
		return
	}
	if s.notification = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); s.notification != nil {
		return
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		s.notification = e
		return
	}
	defer unix.Close(int(fd))
	_, _, e = unix.Syscall(unix.SYS_IOCTL, fd, ioctlNotifFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	s.syncWakeUp = e == 0
	// No call waits, so that a kernel which knows the flag finds no entry.
	request := struct {
		id                            uint64
		flags, source, target, fdFlag uint32
	}{flags: unix.SECCOMP_ADDFD_FLAG_SEND}
	_, _, e = unix.Syscall(unix.SYS_IOCTL, fd, ioctlNotifAddFD, uintptr(unsafe.Pointer(&request)))
	s.answerWithFD = errors.Is(e, unix.ENOENT)
}
