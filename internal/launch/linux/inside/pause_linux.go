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
	seen    snapshot       // the stopped sandbox
	watch   chan struct{}  // closed to end the watch
	// unseen says that the command may have been stopped since its last stop was
	// reported.
	unseen bool
}

// processState is what /proc/PID/stat says, see proc_pid_stat(5).
type processState struct {
	pid, parent int
	state       byte   // of the first thread, which may have ended before the others
	start       string // with the number it identifies a process
	waits       bool   // all that does not halt of it waits in the kernel, see thread.waits
}

const (
	pauseTime  = 2 * time.Second        // for stopping everything
	settleTime = 100 * time.Millisecond // for one process to stop
	watchEvery = 50 * time.Millisecond
	// waitTime is how long something has to wait in the kernel before it counts as
	// stopped: the middle of fork waits as well, for less, and the child would run.
	waitTime = 100 * time.Millisecond
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
	p.active, p.stopped, p.seen, p.ended = false, nil, nil, time.Now()
}

// stopAll stops whatever runs below this process. A stopped process starts no
// other, so from the top down one look after the other finds them all. No look is
// taken at one moment, so the last ones have to show that nothing ran and nothing
// was started between them: two processes that let each other go on in turn, or
// one that starts the next and ends, could be missed by any single one.
func (p *pauses) stopAll() bool {
	var before snapshot
	numbers := ""
	for deadline := time.Now().Add(pauseTime); time.Now().Before(deadline); {
		p.hunt()
		last := lastNumber()
		now, running, ok := look()
		if !ok {
			return false
		}
		running = slices.DeleteFunc(running, func(s processState) bool { return s.waits && p.hasStopped(s) })
		for _, s := range running {
			p.stop(s)
		}
		switch {
		case len(running) > 0:
			before = nil
		case before != nil && now.follows(before) && lastNumber() == numbers:
			p.seen = now
			return true
		default:
			before, numbers = now, last
			if now.waiting() {
				time.Sleep(waitTime)
			}
		}
	}
	return false
}

// reap waits for a child to end or to stop. None is reaped while others are looked
// for: the kernel's list of children skips one where another leaves it meanwhile.
// number is 0 where there is nothing to tell yet.
func (p *pauses) reap() (number int, status unix.WaitStatus, used unix.Rusage, err error) {
	if err = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		return 0, 0, used, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	number, err = unix.Wait4(-1, &status, unix.WUNTRACED|unix.WNOHANG, &used)
	return number, status, used, err
}

// hunt stops orphans at once, before anything is read about the others: one of
// them may be about to start the next and end.
func (p *pauses) hunt() {
	for range 20 {
		found := false
		for _, pid := range childrenOfThread(os.Getpid(), os.Getpid()) {
			if slices.ContainsFunc(p.stopped, func(o processState) bool { return o.pid == pid }) {
				continue
			}
			if s, ok := stateOf(pid); ok && bytes.IndexByte([]byte("RSD"), s.state) >= 0 && unix.Kill(pid, unix.SIGSTOP) == nil {
				p.stopped = append(p.stopped, s)
				p.unseen, found = true, true
			}
		}
		if !found {
			return
		}
	}
}

// lastNumber is the process number that was given out last, which tells whether
// any process or thread was started, see proc_loadavg(5). Without a PID namespace
// it counts those of others, too: where some are started all the time no question
// can be asked.
func lastNumber() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return string(load[bytes.LastIndexByte(load, ' ')+1:])
}

func (p *pauses) stop(s processState) {
	if !p.hasStopped(s) {
		p.stopped = append(p.stopped, s)
	}
	p.unseen = true
	if now, ok := stateOf(s.pid); ok && now.is(s) && unix.Kill(s.pid, unix.SIGSTOP) == nil {
		settle(s)
	}
}

func (p *pauses) hasStopped(s processState) bool { return slices.ContainsFunc(p.stopped, s.is) }

func (s processState) is(o processState) bool { return o.pid == s.pid && o.start == s.start }

// settle waits until a process has taken notice of SIGSTOP. One that waits in the
// kernel for something that no signal ends, such as its vfork child, runs nothing
// before it stops.
func settle(s processState) {
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		runs := false
		for _, t := range threadsOf(s) {
			runs = runs || !t.halted()
		}
		if now, ok := stateOf(s.pid); !runs || !ok || !now.is(s) {
			return
		}
	}
}

// thread is what is known of one thread.
type thread struct {
	process processState
	number  int
	state   byte
	// switches counts how often it gave the processor away: it has not run since
	// it was seen before if the count is the same.
	switches string
}

// halted reports whether a thread cannot run before a signal, or never again.
func (t thread) halted() bool { return bytes.IndexByte([]byte("TtZX"), t.state) >= 0 }

// waits reports whether the thread waits for something in the kernel that no
// signal but a deadly one ends, such as its vfork child. What is sent to it before
// holds from the moment at which it goes on.
func (t thread) waits() bool { return t.state == 'D' }

// snapshot are the threads of the sandbox by process and number.
type snapshot map[[2]int]thread

// follows reports whether nothing has run between two snapshots, where those that
// waited may have come to a halt.
func (now snapshot) follows(before snapshot) bool {
	if len(now) != len(before) {
		return false
	}
	for key, t := range now {
		o, ok := before[key]
		if !ok || !t.process.is(o.process) || t.switches != o.switches && !o.waits() || !t.halted() && !t.waits() {
			return false
		}
	}
	return true
}

func (now snapshot) waiting() bool {
	for _, t := range now {
		if t.waits() {
			return true
		}
	}
	return false
}

// look takes a snapshot of everything below this process. running are the
// processes with threads that are not halted, parents first. ok is false where
// the processes cannot be seen.
func look() (now snapshot, running []processState, ok bool) {
	now = snapshot{}
	family := newFamily()
	known := map[int]bool{}
	for next := family.children(os.Getpid()); len(next) > 0; next = next[1:] {
		s, exists := stateOf(next[0])
		if !exists || known[s.pid] {
			continue
		}
		known[s.pid] = true
		next = append(next, family.children(s.pid)...)
		threads := threadsOf(s)
		if !slices.ContainsFunc(threads, func(t thread) bool { return t.state != 'Z' }) && s.state == 'Z' {
			continue // it has ended, and its parent takes notice at any time
		}
		halted := len(threads) > 0
		s.waits = halted
		for _, t := range threads {
			now[[2]int{s.pid, t.number}] = t
			halted = halted && t.halted()
			s.waits = s.waits && (t.halted() || t.waits())
		}
		if !halted {
			running = append(running, s)
		}
	}
	return now, running, len(threadsOf(processState{pid: os.Getpid()})) > 0
}

// threadsOf looks at each thread of a process: the first one may have ended, and
// others may run that a debugger inside has let go on.
func threadsOf(s processState) (all []thread) {
	dir := "/proc/" + strconv.Itoa(s.pid) + "/task"
	for _, number := range numbersIn(dir) {
		status, err := os.ReadFile(dir + "/" + strconv.Itoa(number) + "/status")
		if err != nil {
			continue // it ended
		}
		t := thread{process: s, number: number}
		if _, after, ok := bytes.Cut(status, []byte("\nState:\t")); ok {
			t.state = after[0]
		}
		if _, after, ok := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:")); ok {
			t.switches = string(after)
		}
		all = append(all, t)
	}
	return all
}

// keepStopped looks for processes that went on by themselves, for example by a
// timer that sends SIGCONT. They are stopped again, but what they did meanwhile
// cannot be known: the host half is told.
func (p *pauses) keepStopped(done chan struct{}, control int) {
	pause := watchEvery
	for {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		p.mu.Lock()
		if p.watch == done {
			began := time.Now()
			now, _, ok := look()
			// A tenth of the time at most is spent on looking.
			pause = max(watchEvery, 9*time.Since(began))
			if !ok || !now.follows(p.seen) {
				p.stopAll()
				_ = SendMessage(control, MessagePaused, []byte{0})
			} else {
				p.seen = now
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
