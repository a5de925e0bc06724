package linux

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// stopCaller stops this process, with group also the others of its process
// group, and returns when it was continued. Whether a job can be stopped at all
// is the kernel's decision: where no shell could continue it, SIGTSTP and its
// like do nothing, and this returns at once. A caller that ignores the signal
// goes on too.
func stopCaller(s unix.Signal, group bool) {
	// A signal to a thread takes effect before the thread goes on; one to the
	// process may first stop another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s == unix.SIGSTOP {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
		return
	}
	before, err := inside.GetDisposition(s)
	if err != nil {
		return
	}
	if group && inside.SetDisposition(s, inside.IgnoreAction) == nil {
		_ = unix.Kill(0, s)
	}
	if !before.Ignores() && inside.SetDisposition(s, inside.DefaultAction) == nil {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
	}
	_ = inside.SetDisposition(s, before)
}
