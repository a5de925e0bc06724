package linux

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// terminal lends the caller's controlling terminal to the command, the way a
// shell lends it to a job. A command whose input and output are the terminal has
// it from the start. Any other one gets it when it first reads from it or
// changes it, which the kernel reports by stopping it: until then the terminal
// stays with the caller's process group, where the pager of a pipeline may be.
type terminal struct {
	mu        sync.Mutex    // held while somebody waits for the terminal or uses it
	tty       int           // a descriptor of the terminal; -1 until it is needed
	ours      int           // the caller's process group
	job       int           // the sandbox's process group
	lent      bool          // the terminal was handed to the job
	settings  *unix.Termios // as they were before the job had the terminal
	continued func()        // lets the job go on after a stop
	hangUp    func()        // tells the job that the terminal is out of reach for good
}

// interactive reports whether the command gets the terminal from the start:
// input and output are the terminal, or the command will not be stopped for
// using it, because the caller ignores SIGTTIN. Shells do that in $(...).
func interactive(stdin, stdout *os.File) bool {
	for _, f := range []*os.File{stdin, stdout} {
		if _, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err != nil {
			d, err := inside.GetDisposition(unix.SIGTTIN)
			return err == nil && d.Ignores()
		}
	}
	return true
}

// newTerminal hands the terminal over if the command is interactive and the
// caller is in the foreground.
func newTerminal(p *process) *terminal {
	t := &terminal{tty: -1, job: p.leader}
	t.continued = func() { p.answered(true) }
	t.hangUp = func() {
		_ = p.Signal(unix.SIGHUP)
		p.answered(true)
	}
	if p.interactive && t.open() && t.foreground() == t.ours {
		_ = t.lend()
	}
	return t
}

func (t *terminal) open() bool {
	if t.tty >= 0 {
		return true
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	t.tty, t.ours = fd, unix.Getpgrp()
	return true
}

// opened reports whether somebody has used the terminal.
func (t *terminal) opened() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tty >= 0
}

// foreground is the process group that has the terminal, or -1.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.tty, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// lend makes the job the foreground group. In the background the kernel stops
// the caller here, as it does with any job that wants the terminal, until the
// shell brings it to the foreground; it fails when there is no shell to do so.
func (t *terminal) lend() error {
	if t.settings == nil {
		// Read before the job can change them.
		t.settings, _ = unix.IoctlGetTermios(t.tty, unix.TCGETS)
	}
	err := unix.IoctlSetPointerInt(t.tty, unix.TIOCSPGRP, t.job)
	t.lent = err == nil
	return err
}

// stopped answers a stop of the command. asked says that the caller was told to
// stop and passed that on, ownGroup that the command is not in the job's group,
// over that somebody continued the job since: who stopped then would stay stopped.
func (t *terminal) stopped(s unix.Signal, asked, ownGroup bool, over func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s == unix.SIGTTIN || s == unix.SIGTTOU:
		t.wanted(s, ownGroup)
	case t.lent:
		// The caller's group did not see what the terminal sent. A command that
		// stops itself for good does that alone, in every job.
		stopCaller(s, s != unix.SIGSTOP, over)
		t.goOn()
	case asked:
		stopCaller(unix.SIGTSTP, false, over) // the rest of the group was told as well
		t.goOn()
	}
}

// goOn continues the job after the shell continued the caller. In the background
// the terminal stays with whoever has it now.
func (t *terminal) goOn() {
	if t.lent && t.foreground() == t.ours {
		_ = t.lend()
	} else if t.lent {
		t.lent = t.foreground() == t.job
	}
	t.continued()
}

// wanted gives the terminal to a job that was stopped for using it. A caller in
// the background waits for the foreground first, stopped like any other job.
func (t *terminal) wanted(s unix.Signal, ownGroup bool) {
	if !t.open() {
		return // the signal did not come from a terminal
	}
	if !ownGroup {
		awaitStop(t.job, s)
	}
	switch group := t.foreground(); {
	case group == t.job && !ownGroup:
		// It was stopped before it got the terminal.
		t.continued()
		return
	case group != t.ours:
		stopCaller(s, true, never)
	}
	// A caller that ignores the signal would not be stopped but take the terminal
	// from under a shell.
	if d, err := inside.GetDisposition(unix.SIGTTOU); t.foreground() != t.ours && (err != nil || d.Ignores()) || t.lend() != nil {
		// Nobody can bring this job to the foreground: the end that the kernel
		// has for such jobs, see setpgid(2).
		t.hangUp()
		return
	}
	t.continued()
}

// release takes the terminal back when the sandbox is gone, and puts it into
// the state that it was lent in if the command had no chance to do so.
func (t *terminal) release(s launch.Status) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open() {
		return
	}
	defer unix.Close(t.tty)
	returned := t.settings != nil && t.takeBack()
	if t.foreground() == t.ours {
		// No key undoes that the command suspended the output, and not only what it has
		// written itself waits then.
		_ = unix.IoctlSetInt(t.tty, unix.TCXONC, tcoon)
	}
	if t.settings == nil {
		return
	}
	if s.Signal != 0 && t.foreground() == t.ours {
		_ = unix.IoctlSetTermios(t.tty, unix.TCSETS, t.settings)
	}
	if returned && (s.Signal == int(unix.SIGINT) || s.Signal == int(unix.SIGQUIT)) {
		// The key that ended the command would have reached this group too, and
		// scripts rely on that to end with their command.
		_ = unix.Kill(0, syscall.Signal(s.Signal))
	}
}

// takeBack reports whether the terminal had stayed with a group of the sandbox.
// Those are empty now; any other group is a shell's or another job's, which took
// the terminal because this job is in the background.
func (t *terminal) takeBack() bool {
	group := t.foreground()
	if group <= 1 || group == t.ours || unix.Kill(-group, 0) != unix.ESRCH {
		return false
	}
	var err error
	// From the background the kernel answers such a request with SIGTTOU, unless
	// the thread blocks it.
	withBlocked(unix.SIGTTOU, func() { err = unix.IoctlSetPointerInt(t.tty, unix.TIOCSPGRP, t.ours) })
	return err == nil
}
