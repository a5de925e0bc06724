package linux

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// waitingDirect answers no question before its end.
type waitingDirect struct{ ended chan netip.AddrPort }

func (waitingDirect) Names([]*net.UDPConn, []net.Listener) {}
func (waitingDirect) Serve(net.Listener)                   {}
func (waitingDirect) Missed(netip.AddrPort, bool)          {}
func (w waitingDirect) Judge(ctx context.Context, to netip.AddrPort) bool {
	<-ctx.Done()
	w.ended <- to
	return false
}

// A question ends when srt-init takes it back, and only that one.
func TestUnask(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	w := waitingDirect{ended: make(chan netip.AddrPort, 2)}
	p := &process{control: fds[0], exited: make(chan struct{}), questions: map[string]context.CancelFunc{}, request: launch.Request{Direct: w}}
	p.event(inside.MessageAsk, []byte{0, 0, 0, 1, 0, 80, 192, 0, 2, 1}, nil)
	p.event(inside.MessageAsk, []byte{0, 0, 0, 2, 0, 80, 192, 0, 2, 2}, nil)
	p.event(inside.MessageUnask, []byte{0, 0, 0, 3}, nil)
	p.event(inside.MessageUnask, nil, nil)
	p.event(inside.MessageUnask, []byte{0, 0, 0, 2}, nil)
	if to := <-w.ended; to != netip.MustParseAddrPort("192.0.2.2:80") {
		t.Errorf("the question about %s ended", to)
	}
	if kind, body, _, err := inside.ReceiveMessage(fds[1]); err != nil || kind != inside.MessageVerdict || string(body) != "\x00\x00\x00\x02\x00" {
		t.Errorf("%c %x %v", kind, body, err)
	}
	select {
	case to := <-w.ended:
		t.Errorf("the question about %s ended, too", to)
	case <-time.After(20 * time.Millisecond):
	}
	close(p.exited)
	<-w.ended
	testutil.Eventually(t, "the end of the questions", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.questions) == 0
	})
}
