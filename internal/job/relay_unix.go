//go:build unix

package job

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Relay passes the signals that this process receives on to the command. Before
// there is a command they stop the start. This process stops when the command
// does: a command may ignore or postpone SIGTSTP.
type Relay struct {
	signals   chan os.Signal
	interrupt func(error)

	mu     sync.Mutex
	cmd    Command
	asked  syscall.Signal // the signal that asked the command to end
	killed bool
	giveUp func() // set when the command has ended
}

// NewRelay takes the signals over and calls interrupt for one that ends the start.
// What the caller ignores stays ignored.
func NewRelay(interrupt func(error)) *Relay {
	r := &Relay{signals: make(chan os.Signal, 16), interrupt: interrupt}
	taken := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH}
	if taken = slices.DeleteFunc(taken, signal.Ignored); len(taken) > 0 {
		signal.Notify(r.signals, taken...)
	}
	// A reader of stderr that went away must not end this process before it cleaned up.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	go r.loop()
	return r
}

// Stop ends the relay: the signals have their usual effect again. SIGQUIT has none
// any more. The one that a terminal's key sends reaches this process too, perhaps
// only now, and a Go program would print the stacks of its goroutines.
func (r *Relay) Stop() {
	signal.Ignore(unix.SIGQUIT)
	signal.Stop(r.signals)
}

// Attach names the command that gets the signals from now on.
func (r *Relay) Attach(cmd Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = cmd
}

// Finish says that the command has ended and that nothing is left but to tell: to a
// reader that may never read. Who asks, or has asked, for the end gets it: giveUp is
// called when the rest takes longer than a moment.
func (r *Relay) Finish(giveUp func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.giveUp = giveUp; r.asked != 0 {
		time.AfterFunc(lastWords, giveUp)
	}
}

// escalated returns the number of the signal after which the command had to be
// killed, or 0.
func (r *Relay) escalated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return int(r.asked)
	}
	return 0
}

func (r *Relay) loop() {
	for s := range r.signals {
		r.handle(s.(syscall.Signal))
	}
}

func (r *Relay) handle(s syscall.Signal) {
	r.mu.Lock()
	cmd, again, giveUp := r.cmd, r.asked != 0, r.giveUp
	ends := s == unix.SIGINT || s == unix.SIGTERM || s == unix.SIGHUP || s == unix.SIGQUIT
	if ends && cmd != nil {
		r.asked = s
	}
	r.mu.Unlock()
	switch {
	case giveUp != nil && ends:
		time.AfterFunc(lastWords, giveUp)
	case cmd == nil && ends:
		r.interrupt(fmt.Errorf("interrupted by %s", unix.SignalName(s)))
	case cmd == nil:
	case ends && again && (s == unix.SIGINT || s == unix.SIGTERM):
		r.kill(cmd)
	default:
		_ = cmd.Signal(s)
		if ends && s != unix.SIGINT {
			time.AfterFunc(Grace, func() { r.kill(cmd) })
		}
	}
}

func (r *Relay) kill(cmd Command) {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	_ = cmd.Kill()
}

// inForeground reports whether this process is in the foreground of a terminal.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// DieInterrupted ends this process by SIGINT, or returns the status to exit with
// where that does not work.
func DieInterrupted() int {
	signal.Reset(unix.SIGINT)
	if !signal.Ignored(unix.SIGINT) && unix.Kill(unix.Getpid(), unix.SIGINT) == nil {
		time.Sleep(time.Second) // the signal ends another thread first
	}
	return 128 + int(unix.SIGINT)
}
