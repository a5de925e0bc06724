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

// killPause is shorter than a fork takes, so that a process which starts another
// and ends, over and over, is met before it does.
const killPause = 100 * time.Microsecond

// kill ends every descendant. Children of a killed process become children of
// this one, so rounds of killing all children reach everybody. Only the kernel's
// word that there is no child ends them: a list of processes misses those that
// come and go while it is read.
func (d *descendants) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for deadline := time.Now().Add(killTimeout); time.Now().Before(deadline); time.Sleep(killPause) {
		for _, pid := range newFamily().children(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
			if err == unix.ECHILD {
				return
			}
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
	}
}

// family finds the children of processes.
type family struct {
	table map[int][]int // by parent, where the kernel lists no children
}

func newFamily() family {
	if _, err := os.Stat("/proc/thread-self/children"); err == nil {
		return family{}
	}
	f := family{table: map[int][]int{}}
	for _, pid := range numbersIn("/proc") {
		if s, ok := stateOf(pid); ok {
			f.table[s.parent] = append(f.table[s.parent], pid)
		}
	}
	return f
}

// children are those of all threads of a process, zombies among them.
func (f family) children(pid int) []int {
	if f.table != nil {
		return f.table[pid]
	}
	var all []int
	for _, thread := range numbersIn("/proc/" + strconv.Itoa(pid) + "/task") {
		all = append(all, childrenOfThread(pid, thread)...)
	}
	return all
}

// childrenOfThread finds nothing where the kernel lists no children. Orphans
// become children of the first thread.
func childrenOfThread(pid, thread int) (all []int) {
	list, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(thread) + "/children")
	if err != nil {
		return nil // it ended
	}
	for _, word := range bytes.Fields(list) {
		if child, err := strconv.Atoi(string(word)); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// numbersIn lists the entries of a directory of /proc that are numbers.
func numbersIn(name string) []int {
	dir, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	all := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all
}
