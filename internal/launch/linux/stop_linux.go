package linux

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// never is for a stop that nothing but its end is told of.
func never() bool { return false }

// stopCaller stops this process, with group also the others of its process
// group, and returns when it was continued. Whether a job can be stopped at all
// is the kernel's decision: where no shell could continue it, SIGTSTP and its
// like do nothing, and this returns at once. A caller that ignores the signal
// goes on too, and so does one for which over says at the last moment that the
// stop is over: the shell sees the rest of the group stop first, and may be quick.
func stopCaller(s unix.Signal, group bool, over func() bool) {
	// A signal to a thread takes effect before the thread goes on; one to the
	// process may first stop another thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s == unix.SIGSTOP {
		if over() {
			return
		}
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
	if !before.Ignores() && !over() && inside.SetDisposition(s, inside.DefaultAction) == nil {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
	}
	_ = inside.SetDisposition(s, before)
}
