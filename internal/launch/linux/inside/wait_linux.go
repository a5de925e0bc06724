package inside

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Some calls wait for somebody else: an open of a FIFO for the other end, a
// connect for the server to accept. The caller itself would be interrupted by a
// signal there. Once srt-init has taken its call only a deadly signal wakes it,
// so whoever waits in its place looks after its signals.

const (
	// wakeSignal interrupts the system call of a thread that waits for a caller.
	// The runtime's handler for it does nothing.
	wakeSignal = unix.Signal(40)
	saRestart  = 0x10000000 // SA_RESTART of <signal.h>
	// errRestart is ERESTARTSYS of the kernel: the caller's signal handler runs, and
	// then the call starts anew or fails with EINTR, as the handler's flags say.
	errRestart = unix.Errno(512)
)

// How often a waiting caller is looked at.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 40 * time.Millisecond
)

// enableWaking keeps the kernel from restarting what wakeSignal interrupted.
func enableWaking() error {
	d, err := GetDisposition(wakeSignal)
	if err == nil && d.handler > IgnoreAction.handler {
		d.flags &^= saRestart
		err = SetDisposition(wakeSignal, d)
	}
	if err != nil {
		return fmt.Errorf("preparing the interruption of waiting calls: %w", err)
	}
	return nil
}

// waitFor makes a system call that may wait, on the calling thread, which must be
// locked and end afterwards. It returns early when the caller gives up.
func (l *listener) waitFor(c *call, do func() unix.Errno) unix.Errno {
	if allowSignal(wakeSignal) != nil {
		return unix.EPERM
	}
	w := &waiter{thread: unix.Gettid(), done: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.watch(l, c)
	}()
	e := do()
	for e == unix.EINTR && w.reason.Load() == 0 {
		e = do() // somebody else's signal
	}
	close(w.done)
	<-over
	if reason := w.reason.Load(); e == unix.EINTR && reason != 0 {
		return unix.Errno(reason)
	}
	return e
}

// atOnceTime is more than a call takes that does not wait.
const atOnceTime = 50 * time.Millisecond

// atOnce makes a system call that does not wait, on the calling thread, which must be
// locked. The caller may change that at the last moment, by clearing O_NONBLOCK of
// a socket that both have: then the call is given up, and answered with waited.
func atOnce(do func() unix.Errno, waited unix.Errno) unix.Errno {
	if allowSignal(wakeSignal) != nil {
		return unix.EPERM
	}
	defer func() { _ = blockSignal(wakeSignal) }()
	thread := unix.Gettid()
	var late, over atomic.Bool
	var interrupt func()
	interrupt = func() {
		late.Store(true)
		if !over.Load() {
			_ = unix.Tgkill(os.Getpid(), thread, wakeSignal)
			time.AfterFunc(atOnceTime, interrupt) // one just before the call begins is lost
		}
	}
	timer := time.AfterFunc(atOnceTime, interrupt)
	e := do()
	for e == unix.EINTR && !late.Load() {
		e = do() // somebody else's signal
	}
	over.Store(true)
	timer.Stop()
	if e == unix.EINTR {
		return waited
	}
	return e
}

// waiter is a thread that waits for a caller.
type waiter struct {
	thread int
	done   chan struct{}
	reason atomic.Uint32 // why the call is given up, 0 as long as it is not
	shared int           // looks in a row that found a signal of the whole process
}

// watch interrupts the thread, until it notices, once the caller gives up.
func (w *waiter) watch(l *listener, c *call) {
	pause := firstLook
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-timer.C:
		}
		if w.reason.Load() == 0 {
			w.reason.Store(uint32(w.look(l, c)))
		}
		if w.reason.Load() != 0 {
			// A signal just before the call begins would be lost, so there is a next.
			_ = unix.Tgkill(os.Getpid(), w.thread, wakeSignal)
			pause = firstLook
		} else {
			pause = min(2*pause, lastLook)
		}
		timer.Reset(pause)
	}
}

// sharedLooks is how often a signal to the whole process must be seen before
// one of its threads is taken to be the one that it waits for.
const sharedLooks = 4

// look returns the error with which the caller's call ends now, if it does.
func (w *waiter) look(l *listener, c *call) unix.Errno {
	if !l.valid(c.id) {
		return unix.EINTR
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		return unix.EINTR
	}
	open := ^signalSet(status, "SigBlk")
	if signalSet(status, "SigPnd")&open != 0 {
		return errRestart
	}
	if signalSet(status, "ShdPnd")&open == 0 {
		w.shared = 0
		return 0
	}
	// The kernel wakes the first thread of a process if it can. Another one may not
	// have been chosen; without a signal of its own it would see ERESTARTSYS itself.
	if tgid, e := threadGroup(c.pid); e == 0 && tgid == c.pid {
		return errRestart
	}
	if w.shared++; w.shared < sharedLooks {
		return 0
	}
	return unix.EINTR
}

// signalSet reads a set of signals, see proc_pid_status(5).
func signalSet(status []byte, name string) uint64 {
	_, after, _ := bytes.Cut(status, []byte("\n"+name+":\t"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	set, err := strconv.ParseUint(string(line), 16, 64)
	if err != nil {
		return 0
	}
	return set
}
