package inside

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
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
		_ = os.RemoveAll(filepath.Clean(i.spec.Private))
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
	body := []byte{byte(e.status), byte(e.status >> 8)}
	_ = SendMessage(i.control, MessageExit, binary.LittleEndian.AppendUint64(body, uint64(e.cpu.Microseconds())))
	os.Exit(0)
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
