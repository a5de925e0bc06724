package inside

import (
	"runtime"
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
func (p *processors) hold(tid int) bool {
	var theirs, here unix.CPUSet
	if p == nil || unix.SchedGetaffinity(tid, &theirs) != nil || theirs != p.usual {
		return false
	}
	var cpu uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); e != 0 {
		return false
	}
	here.Set(int(cpu))
	return unix.SchedSetaffinity(tid, &here) == nil
}

func (p *processors) release(tid int) { _ = unix.SchedSetaffinity(tid, &p.restore) }
