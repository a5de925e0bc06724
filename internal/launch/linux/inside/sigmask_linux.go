package inside

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// blockSignals blocks every signal on the calling thread, which must be locked
// and never be used for anything else. A signal that interrupts the kernel while
// it installs a descriptor in a caller would make the caller see descriptor 0.
func blockSignals() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
		return fmt.Errorf("blocking the signals of the guard: %w", err)
	}
	return nil
}

// allowSignal lets one signal through that blockSignals blocked.
func allowSignal(s unix.Signal) error {
	return unix.PthreadSigmask(unix.SIG_UNBLOCK, setOf(s), nil)
}

func blockSignal(s unix.Signal) error {
	return unix.PthreadSigmask(unix.SIG_BLOCK, setOf(s), nil)
}

func setOf(s unix.Signal) *unix.Sigset_t {
	var one unix.Sigset_t
	one.Val[(s-1)/64] = 1 << ((s - 1) % 64)
	return &one
}
