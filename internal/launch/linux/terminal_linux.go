package linux

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal lends the caller's controlling terminal to the command, the way a
// shell lends it to a job. A nil terminal does nothing: there is none, or the
// caller is not its foreground job.
type terminal struct {
	tty  *os.File
	ours int // the caller's process group
	job  int // the sandbox's process group
}

// takeTerminal returns nil unless this process is in the foreground of its
// controlling terminal and the command is to share it.
func takeTerminal(p *process) *terminal {
	if p.newSession {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{tty: tty, ours: unix.Getpgrp(), job: p.pid}
	if current, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP); err != nil || current != t.ours {
		tty.Close()
		return nil
	}
	return t
}

func (t *terminal) foreground() {
	if t != nil {
		t.give(t.job)
	}
}

// release takes the terminal back.
func (t *terminal) release() {
	if t != nil {
		t.give(t.ours)
		t.tty.Close()
	}
}

// give makes a process group the foreground job. From the background the
// kernel answers such a request with SIGTTOU, unless the thread blocks it.
func (t *terminal) give(group int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		withBlocked(unix.SIGTTOU, func() {
			_ = unix.IoctlSetPointerInt(int(t.tty.Fd()), unix.TIOCSPGRP, group)
		})
	}()
	<-done
}

// stopped answers a stop of the command: srt stops too, so that the shell gets
// its prompt back, and goes on together with the command.
func (t *terminal) stopped(p *process, s syscall.Signal) {
	if t == nil {
		return
	}
	if s == unix.SIGTTIN || s == unix.SIGTTOU {
		// The command touched the terminal before it was handed over.
		t.give(t.job)
		_ = p.Signal(unix.SIGCONT)
		return
	}
	t.give(t.ours)
	_ = unix.Kill(0, unix.SIGSTOP)
	// The shell continued this job. In the background the terminal stays with
	// whoever has it now.
	if current, err := unix.IoctlGetInt(int(t.tty.Fd()), unix.TIOCGPGRP); err == nil && current == t.ours {
		t.give(t.job)
	}
	_ = p.Signal(unix.SIGCONT)
}
