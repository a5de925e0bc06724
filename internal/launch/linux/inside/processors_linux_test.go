package inside

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func processorsOf(t *testing.T, tid int) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// onProcessors restricts the test's thread.
func onProcessors(t *testing.T, set unix.CPUSet) {
	t.Helper()
	runtime.LockOSThread() // which ends with the test: nobody else gets the restriction
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
}

func firstOf(set unix.CPUSet) (one unix.CPUSet) {
	for n := 0; one.Count() == 0; n++ {
		if set.IsSet(n) {
			one.Set(n)
		}
	}
	return one
}

func severalProcessors(t *testing.T) *processors {
	t.Helper()
	p := usualProcessors()
	if p == nil {
		t.Skip("there is only one processor")
	}
	return p
}

// A caller is kept on one processor while it gets its descriptor, and may use all of
// them again afterwards.
func TestHoldingCallers(t *testing.T) {
	before := processorsOf(t, 0)
	p := severalProcessors(t)
	if after := processorsOf(t, 0); after != before {
		t.Errorf("asking for the processors changed them")
	}
	tid := sleeper(t, "0").Process.Pid
	h, ok := p.hold(tid)
	if !ok {
		t.Fatal("not held")
	}
	if held := processorsOf(t, tid); held.Count() != 1 {
		t.Errorf("held on %d processors", held.Count())
	}
	p.release(h)
	if processorsOf(t, tid) != before {
		t.Error("the caller has other processors than before")
	}
}

// What somebody chose stays as it is: for one caller, or for srt and all callers.
func TestChosenProcessorsAreKept(t *testing.T) {
	p := severalProcessors(t)
	tid := sleeper(t, "0").Process.Pid
	one := firstOf(p.usual)
	if err := unix.SchedSetaffinity(tid, &one); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.hold(tid); ok || processorsOf(t, tid) != one {
		t.Error("a caller that chose its processors was touched")
	}
	onProcessors(t, one)
	if usualProcessors() != nil || processorsOf(t, 0) != one {
		t.Error("one processor that was chosen for srt became more")
	}
}

// A choice of several among more is given back as it was. It takes three processors.
func TestSeveralChosenProcessorsAreKept(t *testing.T) {
	p := severalProcessors(t)
	if p.usual.Count() < 3 {
		t.Skip("there are not three processors")
	}
	chosen := p.usual
	for n := 0; chosen == p.usual; n++ {
		chosen.Clear(n)
	}
	onProcessors(t, chosen)
	restricted := severalProcessors(t)
	if restricted.usual != chosen || restricted.restore != chosen || processorsOf(t, 0) != chosen {
		t.Error("the choice is not what callers get back")
	}
}
