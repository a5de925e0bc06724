package linux

import (
	"io"
	"net"
	"net/netip"
	"strings"
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
	strangers := []net.Conn{dial(t, ln, 1, 0)}
	late := dial(t, ln, 1, 0)
	from := late.LocalAddr().(*net.TCPAddr).AddrPort()
	for host := byte(2); host < 20; host++ { // other addresses have the same ports
		strangers = append(strangers, dial(t, ln, host, from.Port()))
	}
	time.AfterFunc(20*time.Millisecond, func() { ports.add(from) })
	got, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.RemoteAddr().String() != late.LocalAddr().String() {
		t.Errorf("accepted %v, announced %v", got.RemoteAddr(), late.LocalAddr())
	}
	for _, c := range strangers {
		_ = c.SetReadDeadline(time.Now().Add(10 * announceTimeout))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection of %v ended with %v", c.LocalAddr(), err)
		}
	}
	limit := time.AfterFunc(10*announceTimeout, func() { p.Close() })
	defer limit.Stop()
	for range maxChecking {
		p.checking <- struct{}{} // strangers have all the slots
	}
	port := uint16(portOf(ln))
	ports.add(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 30}), port))
	dial(t, ln, 31, port)
	dial(t, ln, 30, port)
	if got, err := p.Accept(); err != nil || !strings.HasPrefix(got.RemoteAddr().String(), "127.0.0.30:") {
		t.Errorf("accepted %v, %v", got, err)
	} else {
		got.Close()
	}
	if p.Addr().String() != "127.0.0.1:3128" {
		t.Errorf("the address is %v", p.Addr())
	}
	p.Close()
	if _, err := p.Accept(); err == nil {
		t.Error("accepting after the end succeeded")
	}
}

// dial connects from a port of 127.0.0.host.
func dial(t *testing.T, ln net.Listener, host byte, port uint16) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host), Port: int(port)}}
	c, err := d.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAnnouncedPortServesOnce(t *testing.T) {
	a := newAnnouncedPorts()
	at := func(port int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	}
	a.add(at(5))
	if ok, _ := a.take(at(5)); !ok {
		t.Error("the announced port is not known")
	}
	if ok, _ := a.take(at(5)); ok {
		t.Error("the port was announced once and served twice")
	}
	a.add(at(6))
	a.waiting[0].at = time.Now().Add(-acceptTimeout)
	if ok, _ := a.take(at(6)); ok {
		t.Error("a port that was announced long ago serves somebody else")
	}
	for i := range 2 * maxAnnounced {
		a.add(at(i))
	}
	if len(a.waiting) > maxAnnounced {
		t.Errorf("%d announcements are kept", len(a.waiting))
	}
}
