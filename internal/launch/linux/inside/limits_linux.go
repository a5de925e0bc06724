package inside

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ResourceLimit is one limit of setrlimit(2).
type ResourceLimit struct {
	// Resource is an RLIMIT_ number.
	Resource int
	Soft     uint64
	Hard     uint64
}

// limited reports whether the command needs more than a plain start.
func (i *initProcess) limited() bool { return len(i.spec.Limits) > 0 || i.group != 0 }

// fork starts a program, under its limits if there are any.
func (i *initProcess) fork(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	if !i.limited() {
		return syscall.ForkExec(path, args, attr)
	}
	pid, mask, err := forkStopped(path, args, attr)
	if err != nil {
		return 0, err
	}
	if err := i.letGoLimited(pid, mask); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, &stageError{stage: "limits", err: err}
	}
	return pid, nil
}

// forkStopped starts a program that stands still before its first instruction.
// Limits cannot be set earlier: they belong to a process, srt-init must not have
// them, and lowered ones cannot be raised again. Tracing is the one way that the
// system offers to stop a program there.
//
// All signals but the stop itself are blocked: one that arrives between the fork
// and the exec would stop the child where its parent still waits for the exec.
// The child inherits the mask; the caller gives it the returned one.
func forkStopped(path string, args []string, attr *syscall.ProcAttr) (int, *unix.Sigset_t, error) {
	var blocked, before unix.Sigset_t
	for k := range blocked.Val {
		blocked.Val[k] = ^blocked.Val[k]
	}
	blocked.Val[0] &^= 1 << (unix.SIGTRAP - 1)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &blocked, &before); err != nil {
		return 0, nil, fmt.Errorf("blocking signals: %w", err)
	}
	attr.Sys = &syscall.SysProcAttr{Ptrace: true}
	pid, err := syscall.ForkExec(path, args, attr)
	if e := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); e != nil && err == nil {
		err = e
	}
	return pid, &before, err
}

// letGoLimited puts a stopped program under its limits and lets it run.
func (i *initProcess) letGoLimited(pid int, mask *unix.Sigset_t) error {
	if err := waitStopped(pid); err != nil {
		return err
	}
	// This thread has the command's filter, which keeps it from setting the limits
	// of others.
	done := make(chan error)
	go func() { done <- i.confine(pid) }()
	if err := <-done; err != nil {
		return err
	}
	const maskSize = 8
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETSIGMASK, uintptr(pid), maskSize, uintptr(unsafe.Pointer(mask)), 0, 0); e != 0 {
		return fmt.Errorf("setting the signal mask of the command: %w", e)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return fmt.Errorf("letting the command go: %w", err)
	}
	return nil
}

// confine sets the limits of a process and moves it into its cgroup.
func (i *initProcess) confine(pid int) error {
	for _, l := range i.spec.Limits {
		if l.Resource == unix.RLIMIT_NPROC {
			own, err := ownThreads()
			if err != nil {
				return err
			}
			l.Soft, l.Hard = l.Soft+own, l.Hard+own
		}
		if err := lower(pid, l); err != nil {
			return fmt.Errorf("setting limit %d of the command: %w", l.Resource, err)
		}
	}
	if i.group == 0 {
		return nil
	}
	defer unix.Close(i.group)
	if _, err := unix.Write(i.group, []byte(strconv.Itoa(pid))); err != nil {
		return fmt.Errorf("moving the command into its cgroup: %w", err)
	}
	return nil
}

// spareThreads is how many threads the runtime may still start.
const spareThreads = 3

// ownThreads returns how many threads of srt-init count as the command's: the
// kernel counts what one user has in one user namespace.
func ownThreads() (uint64, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, fmt.Errorf("counting the threads of srt-init: %w", err)
	}
	return uint64(len(threads) + spareThreads), nil
}

func waitStopped(pid int) error {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("waiting for the command to start: %w", err)
		case !status.Stopped():
			return fmt.Errorf("waiting for the command to start: it ended early, status %#x", uint32(status))
		}
		return nil
	}
}

// lower sets a limit of another process unless it has a tighter one.
func lower(pid int, l ResourceLimit) error {
	var r unix.Rlimit
	if err := unix.Prlimit(pid, l.Resource, nil, &r); err != nil {
		return err
	}
	r.Max = min(r.Max, l.Hard)
	r.Cur = min(r.Cur, l.Soft, r.Max)
	return unix.Prlimit(pid, l.Resource, &r, nil)
}
