package linux

import (
	"io"
	"net"
	"testing"
	"time"
)

// Any program of the machine can connect to a loopback port; only the
// connections that were announced are served, whichever comes first.
func TestPrivateListener(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ports := newAnnouncedPorts()
	p := newPrivateListener(ln, ports, 3128)
	stranger := dial(t, ln)
	late := dial(t, ln)
	time.AfterFunc(20*time.Millisecond, func() { ports.add(late.LocalAddr().(*net.TCPAddr).Port) })
	got, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.RemoteAddr().String() != late.LocalAddr().String() {
		t.Errorf("accepted %v, announced %v", got.RemoteAddr(), late.LocalAddr())
	}
	_ = stranger.SetReadDeadline(time.Now().Add(10 * announceTimeout))
	if _, err := stranger.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the stranger's connection ended with %v", err)
	}
	if p.Addr().String() != "127.0.0.1:3128" {
		t.Errorf("the address is %v", p.Addr())
	}
	p.Close()
	if _, err := p.Accept(); err == nil {
		t.Error("accepting after the end succeeded")
	}
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAnnouncedPortServesOnce(t *testing.T) {
	a := newAnnouncedPorts()
	a.add(5)
	if ok, _ := a.take(5); !ok {
		t.Error("the announced port is not known")
	}
	if ok, _ := a.take(5); ok {
		t.Error("the port was announced once and served twice")
	}
	for i := range 2 * maxAnnounced {
		a.add(i)
	}
	if len(a.waiting) > maxAnnounced {
		t.Errorf("%d announcements are kept", len(a.waiting))
	}
}
