package inside

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func controlPair(t *testing.T) (int, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// The answer holds unconnected TCP sockets that do not block, and the question's
// number.
func TestHandOutSockets(t *testing.T) {
	host, control := controlPair(t)
	handOutSockets(control, []byte{1, 2, 3, 4})
	kind, body, fds, err := ReceiveMessage(host)
	if err != nil || kind != MessageSockets || string(body) != "\x01\x02\x03\x04" || len(fds) == 0 {
		t.Fatalf("answer %c %v %v, %v", kind, body, fds, err)
	}
	for _, fd := range fds {
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || n != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v", n, err)
		}
		if _, err := unix.Getpeername(fd); err != unix.ENOTCONN {
			t.Errorf("the socket's peer: %v", err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("flags %o, %v", flags, err)
		}
		unix.Close(fd)
	}
}

// Malformed questions get no answer, and a host half that reads none does not stop
// srt-init.
func TestHandOutSocketsNeverWaits(t *testing.T) {
	host, control := controlPair(t)
	for _, question := range [][]byte{nil, {1}, {1, 2, 3}, {1, 2, 3, 4, 5}, make([]byte, maxMessage-1)} {
		handOutSockets(control, question)
	}
	if n, _, err := unix.Recvfrom(host, make([]byte, 10), unix.MSG_DONTWAIT); err != unix.EAGAIN {
		t.Errorf("received %d bytes, %v", n, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5000 {
			handOutSockets(control, []byte{0, 0, 0, 1})
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("srt-init waits for the host half")
	}
}

// What reaches a published port comes from outside, so it must not lead out again.
func TestPublishedPortsStayInside(t *testing.T) {
	d := newDirect(-1, &Spec{Filter: FilterOptions{HostPorts: true}, HostPorts: []int{3000, 5432}, Published: []int{3000, 8080}})
	for to, want := range map[string]bool{
		"127.0.0.1:5432": true, "[::1]:5432": true, "127.0.0.1:3000": false, "[::1]:3000": false, "127.0.0.1:8080": false,
		"127.0.0.1:22": false, "192.0.2.1:5432": false,
	} {
		if got := d.concerns(netip.MustParseAddrPort(to)); got != want {
			t.Errorf("%s leads out: %v", to, got)
		}
	}
}
