package linux

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Signal sends a signal to the command and the processes in its group, as a
// terminal would.
func (p *process) Signal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("sending signal %v: not a signal of this system", s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.via != nil && !p.via.alive() {
		return os.ErrProcessDone
	}
	switch number {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
		if end := p.endTalk.Load(); end != nil {
			(*end)(errSignal) // a stopped command handles no signal
		}
	case unix.SIGTSTP:
		if p.held {
			return nil // the kernel would drop it when the command goes on
		}
		p.stopAsked = true
		if p.newSession {
			number = unix.SIGSTOP // the kernel ignores SIGTSTP in a session without a shell
		}
	case unix.SIGCONT:
		p.stopAsked = false
		p.continues++
		if p.held {
			return nil // it goes on with the end of the conversation
		}
		if p.answering {
			// It goes on when it has the terminal again. A shell inside that went on earlier
			// would stop itself once more.
			p.deferred = true
			return nil
		}
	}
	// A command that left this group for one of its own, as a shell does on a
	// terminal, is known to srt-init alone.
	_ = inside.SendMessage(p.control, inside.MessageSignal, []byte{byte(number)})
	if number == unix.SIGSTOP {
		return nil // from out here it would stop srt-init as well
	}
	// srt-init leads the group and is not reaped yet, so the number is still its own.
	return unix.Kill(-p.leader, number)
}

// killGrace is how long srt-init may take to kill what it started.
const killGrace = 12 * time.Second

// Kill ends the sandbox and every process in it. Where the command may have made
// repositories srt-init does it, and looks at them.
func (p *process) Kill() {
	p.mu.Lock()
	ask := p.started && !p.gone && p.watching
	if ask {
		p.killed = true
		_ = inside.SendMessage(p.control, inside.MessageKill, nil)
	}
	p.mu.Unlock()
	if !ask {
		p.killNow()
		go p.awaitExit()
		return
	}
	go func() {
		select {
		case <-p.exited:
		case <-time.After(killGrace):
			p.killNow()
			p.awaitExit()
		}
	}()
}

// killNow takes srt-init away, and with it everything inside.
func (p *process) killNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.via != nil {
		p.via.kill(p.gone)
	} else if !p.gone {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
}

// Close ends the sandbox if it still runs and releases the control socket.
func (p *process) Close() {
	p.Kill()
	<-p.exited
	p.release()
}

// release puts away what outlives srt-init.
func (p *process) release() {
	p.watched.close()
	p.group.remove()
	unix.Close(p.control)
}
