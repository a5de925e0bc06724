package inside

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disposition is what the kernel does with a signal for this process. It mirrors
// the struct that rt_sigaction(2) takes on amd64 and arm64.
type Disposition struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// The dispositions that have no handler.
var (
	DefaultAction = Disposition{handler: 0} // SIG_DFL
	IgnoreAction  = Disposition{handler: 1} // SIG_IGN
)

// Ignores reports whether the kernel drops the signal.
func (d Disposition) Ignores() bool { return d.handler == IgnoreAction.handler }

// ignoreSignals keeps process 1 alive: the kernel drops every signal that
// process 1 of a PID namespace has no handler for, whoever inside sends it and
// by whatever call, see pid_namespaces(7). So the runtime's handlers are taken
// away, those for signals that a terminal, a shell or srt itself sends to the
// command's process group, which process 1 shares, and those for faults, which
// the command could send to end its supervisor. A real fault still ends it. What
// the caller ignores stays ignored, for the command inherits that.
func ignoreSignals() error {
	for s := unix.SIGHUP; s <= unix.SIGSYS; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP: // have no handlers
			continue
		case unix.SIGCHLD, unix.SIGURG: // the runtime's own, which do nothing harmful
			continue
		}
		current, err := GetDisposition(s)
		if err == nil && current.handler > IgnoreAction.handler {
			err = SetDisposition(s, DefaultAction)
		}
		if err != nil {
			return fmt.Errorf("taking the handler of %s away: %w", unix.SignalName(s), err)
		}
	}
	return nil
}

// GetDisposition reads a disposition past the Go runtime.
func GetDisposition(s unix.Signal) (Disposition, error) {
	var d Disposition
	err := sigaction(s, nil, &d)
	return d, err
}

// SetDisposition sets a disposition past the Go runtime, which does not learn of
// it: whoever calls this outside srt-init puts the old one back.
func SetDisposition(s unix.Signal, d Disposition) error { return sigaction(s, &d, nil) }

func sigaction(s unix.Signal, set, get *Disposition) error {
	const setSize = 8 // of the signal mask
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), setSize, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
