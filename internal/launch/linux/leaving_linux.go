package linux

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exitGrace is how long srt-init may take to end after its last word, or after it
// was killed.
const exitGrace = 5 * time.Second

// awaitExit waits for the end of srt-init, which has nothing more to do. A process
// that waits for a file system that does not answer, such as one in user space
// whose program is stuck, cannot be ended by anybody. It is left behind, killed: not
// one more instruction of it or of what it started is executed.
func (p *process) awaitExit() {
	patience := time.NewTimer(exitGrace)
	defer patience.Stop()
	select {
	case <-p.exited:
		return
	case <-patience.C:
	}
	p.killNow()
	if p.ended(0, true) && p.request.Note != nil {
		p.request.Note("the sandbox's process does not end, most likely because a file system does not answer it; it is left behind, killed, and ends when that does")
	}
}

// awaitEnd waits for the end of the sandbox after srt-init's last word. If that says
// that srt-init is alone, the sandbox has ended: what is left to do is the kernel's,
// to take the namespaces apart. The terminal is another matter. It stays with the
// process group that srt-init is in, until that is empty.
func (p *process) awaitEnd(alone bool) {
	if !alone || p.via != nil || p.terminal.opened() {
		p.awaitExit()
		return
	}
	p.ended(0, false)
}

// ended records the end of srt-init, or that it has nothing more to do, once.
func (p *process) ended(status syscall.WaitStatus, left bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false
	}
	if p.gone, p.left, p.status = true, left, status; left {
		_ = unix.Shutdown(p.control, unix.SHUT_RDWR) // whoever still listens there
	}
	close(p.exited)
	return true
}

func (p *process) leftBehind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}
