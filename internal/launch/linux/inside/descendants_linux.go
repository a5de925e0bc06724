package inside

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// descendants are the processes below this one, which adopts every orphan.
type descendants struct{ mu sync.Mutex }

// killTimeout bounds the hunt for processes that multiply.
const killTimeout = 10 * time.Second

// kill ends every descendant. Children of a killed process become children of
// this one, so rounds of killing all children reach everybody.
func (d *descendants) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for deadline := time.Now().Add(killTimeout); time.Now().Before(deadline); {
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for {
			var status unix.WaitStatus
			if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// childrenOf looks through all processes, zombies not counted.
func childrenOf(parent int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var children []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if state, ppid := parentOf(pid); ppid == parent && state != 'Z' {
			children = append(children, pid)
		}
	}
	return children
}

// parentOf reads the state and the parent from /proc/PID/stat, see proc_pid_stat(5).
func parentOf(pid int) (state byte, parent int) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	// The name in parentheses may hold anything; the last one ends it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent
}
