package linux

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// withBlocked runs f on a thread that blocks one signal.
func withBlocked(s unix.Signal, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return
	}
	f()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}
