package inside

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// asked returns a direct that asks over a socket, and the number of the next
// question there.
func asked(t *testing.T) (d *direct, next func() []byte) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return newDirect(fds[0], &Spec{}), func() []byte {
		kind, body, _, err := ReceiveMessage(fds[1])
		if err != nil || kind != MessageAsk && kind != MessageUnask {
			return nil
		}
		return body[:4]
	}
}

func (d *direct) answer(id []byte, allowed byte) {
	d.answered(append(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(id)), allowed))
}

func eventuallyAsked(t *testing.T, next func() []byte) (id []byte) {
	t.Helper()
	testutil.Eventually(t, "a question", func() bool { id = next(); return id != nil })
	return id
}

// A call that a stop interrupts is started again by the kernel, and gets the
// answer to the question that was asked about it before, whichever it is.
func TestInterruptedCallIsAskedOnce(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		for _, late := range []bool{true, false} {
			d, next := asked(t)
			d.paused = func() bool { return true }
			c := connectCall{thread: 1, to: netip.MustParseAddrPort("192.0.2.1:80")}
			first, second := make(chan bool, 1), make(chan bool, 1)
			go func() { first <- d.mayConnect(c, func() bool { return false }) }()
			id := eventuallyAsked(t, next)
			time.Sleep(2 * askPoll) // the caller is gone, and waited for all the same
			again := func() { second <- d.mayConnect(c, func() bool { return true }) }
			verdict := byte(0)
			if allowed {
				verdict = 1
			}
			if late {
				d.answer(id, verdict)
				<-first
				again()
			} else {
				go again()
				time.Sleep(10 * time.Millisecond)
				d.answer(id, verdict)
				<-first
			}
			if got := <-second; got != allowed {
				t.Errorf("late %v: answered %v, want %v", late, got, allowed)
			}
			if next() != nil {
				t.Error("asked twice")
			}
			if len(d.open) != 0 {
				t.Errorf("%d questions are left", len(d.open))
			}
		}
	}
}

// A signal handler, too, makes the kernel start a call again, which then waits for
// the answer to its question.
func TestCallThatASignalInterrupts(t *testing.T) {
	d, next := asked(t)
	c := connectCall{thread: 1, to: netip.MustParseAddrPort("192.0.2.1:80")}
	var gone atomic.Bool
	first, second := make(chan bool, 1), make(chan bool, 1)
	go func() { first <- d.mayConnect(c, func() bool { return !gone.Load() }) }()
	id := eventuallyAsked(t, next)
	go func() { second <- d.mayConnect(c, func() bool { return true }) }()
	testutil.Eventually(t, "the second call", func() bool { // or nobody wants the answer for a moment
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.open[c].joined
	})
	gone.Store(true)
	time.Sleep(2 * askPoll)
	select {
	case <-second:
		t.Fatal("answered by nobody")
	default:
	}
	d.answer(id, 1)
	if !<-second || !<-first || next() != nil || len(d.open) != 0 {
		t.Error("refused, asked twice, or kept")
	}
}

// Without a pause a caller that is gone ends its question.
func TestQuestionOfGoneCaller(t *testing.T) {
	d, next := asked(t)
	c := connectCall{thread: 1, to: netip.MustParseAddrPort("192.0.2.1:80")}
	if d.mayConnect(c, func() bool { return false }) {
		t.Error("allowed without an answer")
	}
	if id, taken := next(), next(); id == nil || string(taken) != string(id) {
		t.Errorf("question %x is not taken back: %x", id, taken)
	}
	if len(d.open) != 0 {
		t.Errorf("%d questions are kept", len(d.open))
	}
}

// An answer that nobody comes for is not kept for long.
func TestOldAnswers(t *testing.T) {
	d, _ := asked(t)
	c := connectCall{thread: 1, to: netip.MustParseAddrPort("192.0.2.1:80")}
	q, _ := d.question(c, func() bool { return true })
	q.ends = time.Now().Add(-time.Second)
	if _, ours := d.question(c, func() bool { return true }); !ours || len(d.open) != 1 {
		t.Error("an old answer is used")
	}
}

// However many places a command connects to, the host half has descriptors left.
func TestListenersAreBounded(t *testing.T) {
	for descriptors, want := range map[uint64]int{unix.RLIM_INFINITY: maxListening, 4096: maxListening, 400: 100, 0: 0} {
		if got := mostListeners(descriptors); got != want {
			t.Errorf("%d listeners of %d descriptors, want %d", got, descriptors, want)
		}
	}
	d, _ := asked(t)
	d.most = 2
	for host, want := range []unix.Errno{0, 0, unix.ENOBUFS} {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 9, 9, byte(1 + host)}), 4999)
		for range 2 { // the second time it stands already
			if got := d.listen(to); got != want {
				t.Errorf("%v: %v, want %v", to, got, want)
			}
		}
	}
}
