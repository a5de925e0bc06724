package linux

import (
	"runtime"
	"time"

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
	if !before.Ignores() && inside.SetDisposition(s, inside.DefaultAction) == nil {
		stopUnless(s, over)
	}
	_ = inside.SetDisposition(s, before)
}

// noticing is how long the handling of a signal that has arrived may take.
const noticing = 20 * time.Millisecond

// stopUnless stops this process by a signal with the default action, unless it is
// continued before that. The kernel drops a pending stop when SIGCONT is sent
// (signal(7)), so the stop is made pending first, and looked at after it what came
// before: changing the mask makes this thread handle a SIGCONT that waits.
func stopUnless(s unix.Signal, over func() bool) {
	withBlocked(s, func() {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
		time.Sleep(noticing)
		if over() {
			_ = inside.SetDisposition(s, inside.IgnoreAction) // drops what is pending
		}
	})
}
