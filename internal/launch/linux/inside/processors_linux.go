package inside

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processors keeps a caller on the guard's processor while a descriptor is installed
// in it. The kernel wakes the caller for that, before and apart from the answer, and
// takes an idle processor if there is one. Then each of the two waits for the
// other's to leave its sleep, on virtual machines longer than all the rest takes.
// For the answer itself there is notifSyncWakeUp.
//
// The caller sleeps in its call meanwhile and sees nothing of it.
type processors struct {
	// usual are those that srt-init may use, and each caller that did not choose
	// others. No caller that did is touched.
	usual unix.CPUSet
	// restore asks for the usual ones. Where nobody chose them for srt-init it asks
	// for all: the kernel grants what the control group has, now and later.
	restore unix.CPUSet
	// The caller wakes the guard in turn, and the kernel may move it then. If that
	// happens often, the guard keeps itself in place, too, which costs more.
	moved  atomic.Int32 // a measure of how often it did
	steady atomic.Int32 // for how many calls the guard does so
}

const (
	steadyCalls = 256
	// movedOnce is what one move counts, and each call without any takes one off.
	movedOnce = 16
	movedMuch = 4 * movedOnce
)

// hold is a caller kept in place.
type hold struct {
	tid  int
	cpu  int
	self bool
}

// usualProcessors returns nil where there is nothing to choose from.
func usualProcessors() *processors {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := &processors{}
	if unix.SchedGetaffinity(0, &p.usual) != nil || p.usual.Count() < 2 {
		return nil
	}
	var granted unix.CPUSet
	p.restore.Fill()
	if unix.SchedSetaffinity(0, &p.restore) != nil {
		return nil
	}
	if unix.SchedGetaffinity(0, &granted) != nil || granted != p.usual {
		p.restore = p.usual
		_ = unix.SchedSetaffinity(0, &p.usual)
	}
	return p
}

// hold keeps a thread on the processor that this one runs on. It reports whether
// it did, and the thread is to be released then.
func (p *processors) hold(tid int) (h hold, ok bool) {
	var theirs, here unix.CPUSet
	if p == nil || unix.SchedGetaffinity(tid, &theirs) != nil || theirs != p.usual {
		return h, false
	}
	h = hold{tid: tid, cpu: thisProcessor()}
	if h.cpu < 0 {
		return h, false
	}
	here.Set(h.cpu)
	if unix.SchedSetaffinity(tid, &here) != nil {
		return h, false
	}
	if p.steady.Load() > 0 {
		p.steady.Add(-1)
		h.self = unix.SchedSetaffinity(0, &here) == nil
	}
	return h, true
}

func (p *processors) release(h hold) {
	switch {
	case h.self:
		_ = unix.SchedSetaffinity(0, &p.restore)
	case thisProcessor() == h.cpu:
		if p.moved.Load() > 0 {
			p.moved.Add(-1)
		}
	case p.moved.Add(movedOnce) >= movedMuch:
		p.moved.Store(0)
		p.steady.Store(steadyCalls)
	}
	_ = unix.SchedSetaffinity(h.tid, &p.restore)
}

// thisProcessor returns -1 if the kernel does not say.
func thisProcessor() int {
	var cpu uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); e != 0 {
		return -1
	}
	return int(cpu)
}
