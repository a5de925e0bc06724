package inside

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/rmtree"
)

// ending is how the command ended.
type ending struct {
	status unix.WaitStatus
	cpu    time.Duration
}

// endOrphaned kills the command and removes what the host half would have removed.
func (i *initProcess) endOrphaned() {
	i.orphaned.Store(true)
	i.killRest()
	i.inspect()
	if i.spec.Private != "" {
		_ = rmtree.Remove(i.spec.Private)
	}
	os.Exit(1)
}

// killRest kills everything that the command left. Signal -1 reaches all of
// this PID namespace but its process 1.
func (i *initProcess) killRest() {
	if i.descendants != nil {
		i.descendants.kill()
		return
	}
	_ = unix.Kill(-1, unix.SIGKILL)
}

// finish reports the command's status and ends process 1, which makes the
// kernel kill everything that is left inside.
func (i *initProcess) finish(e ending) {
	if i.descendants != nil {
		i.descendants.kill()
	}
	i.inspect()
	if i.orphaned.Load() {
		select {} // endOrphaned ends the process when it has cleaned up
	}
	body := binary.LittleEndian.AppendUint64([]byte{byte(e.status), byte(e.status >> 8)}, uint64(e.cpu.Microseconds()))
	if i.alone() {
		body = append(body, 1)
	} else {
		body = append(body, 0)
	}
	_ = SendMessage(i.control, MessageExit, body)
	os.Exit(0)
}

// alone reports whether nothing of the sandbox is left but this process, and that
// performs no call any more. What it does not know of it takes for left.
func (i *initProcess) alone() bool {
	for i.descendants == nil {
		// Without a child process 1 has no descendant, and there is nobody else in its
		// PID namespace.
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err == unix.ECHILD:
			return i.guard == nil || i.guard.idle()
		case pid <= 0 && err != unix.EINTR:
			return false
		}
	}
	return false
}

// awaitRest reaps until no process of the sandbox is left. One that merely looks
// dead may have threads that are not: only reaping tells.
func (i *initProcess) awaitRest() (alone bool) {
	for deadline := time.Now().Add(killTimeout); ; {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err == unix.ECHILD:
			return true
		case pid > 0 || err == unix.EINTR:
		case time.Now().After(deadline):
			return false
		default:
			time.Sleep(time.Millisecond)
			i.killRest()
		}
	}
}
