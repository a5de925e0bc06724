package inside

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pauses stops the whole sandbox while a person is asked something on the
// terminal that it shares: nobody inside then reads the answer or writes over the
// question. Parents are stopped before their children and go on after them, so
// that a shell inside never sees one of its jobs stopped.
type pauses struct {
	mu      sync.Mutex
	active  bool
	ended   time.Time
	stopped []processState // in the order in which they were stopped
	watch   chan struct{}  // closed to end the watch
	// unseen says that the command may have been stopped since its last stop was
	// reported.
	unseen bool
}

// processState is what /proc/PID/stat says, see proc_pid_stat(5).
type processState struct {
	pid, parent int
	state       byte
	start       string // with the number it identifies a process
}

const (
	pauseTime  = time.Second            // for stopping everything
	settleTime = 100 * time.Millisecond // for one process to stop
	watchEvery = 50 * time.Millisecond
	// pauseTail is how long after a pause its traces are still seen: a stop that
	// the kernel reports late, a call that is started again.
	pauseTail = time.Second
)

// set begins or ends a pause. A pause that is not complete ends at once.
func (p *pauses) set(begin bool, control int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !begin {
		p.end()
		return
	}
	if p.active {
		return
	}
	p.active = true
	verdict := byte(1)
	if !p.stopAll() {
		verdict = 0
		p.end()
	} else {
		p.watch = make(chan struct{})
		go p.keepStopped(p.watch, control)
	}
	_ = SendMessage(control, MessagePaused, []byte{verdict})
}

// end lets everything go on that was stopped here, children first.
func (p *pauses) end() {
	if !p.active {
		return
	}
	if p.watch != nil {
		close(p.watch)
		p.watch = nil
	}
	for _, s := range slices.Backward(p.stopped) {
		if now, ok := stateOf(s.pid); ok && now.start == s.start {
			_ = unix.Kill(s.pid, unix.SIGCONT)
		}
	}
	p.active, p.stopped, p.ended = false, nil, time.Now()
}

// stopAll stops whatever runs below this process. A stopped process starts no
// other, so from the top down one pass after the other finds them all.
func (p *pauses) stopAll() bool {
	for deadline := time.Now().Add(pauseTime); time.Now().Before(deadline); {
		running, ok := p.running()
		if !ok {
			return false
		}
		if len(running) == 0 {
			return true
		}
		for _, s := range running {
			if !slices.ContainsFunc(p.stopped, func(o processState) bool { return o.pid == s.pid && o.start == s.start }) {
				p.stopped = append(p.stopped, s)
			}
			p.unseen = true
			if unix.Kill(s.pid, unix.SIGSTOP) == nil {
				settle(s)
			}
		}
	}
	return false
}

// settle waits until a process has taken notice of SIGSTOP. One that waits in the
// kernel for something that no signal ends, such as its vfork child, runs nothing
// before it stops.
func settle(s processState) {
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if now, ok := stateOf(s.pid); !ok || now.start != s.start || now.halted() {
			return
		}
	}
}

// halted reports whether a process cannot run before a signal, or never again.
func (s processState) halted() bool { return bytes.IndexByte([]byte("TtZX"), s.state) >= 0 }

// running lists the processes below this one that are not halted, parents first.
// Those that wait uninterruptibly and were stopped before count as halted. ok is
// false where the processes cannot be seen.
func (p *pauses) running() (found []processState, ok bool) {
	children := map[int][]processState{}
	for _, s := range processTable() {
		children[s.parent] = append(children[s.parent], s)
		ok = ok || s.pid == os.Getpid()
	}
	seen := map[int]bool{}
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, s := range children[next[0]] {
			if seen[s.pid] {
				continue
			}
			seen[s.pid] = true
			next = append(next, s.pid)
			waits := s.state == 'D' && slices.ContainsFunc(p.stopped, func(o processState) bool { return o.pid == s.pid && o.start == s.start })
			if !s.halted() && !waits {
				found = append(found, s)
			}
		}
	}
	return found, ok
}

// keepStopped looks for processes that go on by themselves, for example by a
// timer that sends SIGCONT. They are stopped again, but what they did meanwhile
// cannot be known: the host half is told.
func (p *pauses) keepStopped(done chan struct{}, control int) {
	for {
		select {
		case <-done:
			return
		case <-time.After(watchEvery):
		}
		p.mu.Lock()
		if p.watch == done {
			if running, ok := p.running(); !ok || len(running) > 0 {
				p.stopAll()
				_ = SendMessage(control, MessagePaused, []byte{0})
			}
		}
		p.mu.Unlock()
	}
}

// caused reports whether a pause is the reason of a stop.
func (p *pauses) caused(s unix.Signal) bool {
	if s != unix.SIGSTOP || !p.recent() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unseen := p.unseen
	p.unseen = false
	return unseen
}

// recent reports whether there is a pause or was one a moment ago.
func (p *pauses) recent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active || time.Since(p.ended) < pauseTail
}

// processTable lists all processes that /proc shows.
func processTable() []processState {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var all []processState
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := stateOf(pid); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

func stateOf(pid int) (processState, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processState{}, false
	}
	// The name in parentheses may hold anything; the last one ends it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return processState{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return processState{pid: pid, parent: parent, state: fields[0][0], start: string(fields[19])}, err == nil
}
