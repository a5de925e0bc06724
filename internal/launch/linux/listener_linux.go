package linux

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// announcedPorts remembers the local addresses and ports from which srt-init has
// connected.
type announcedPorts struct {
	mu      sync.Mutex
	waiting []announcement
	changed chan struct{} // closed and replaced when one is added
}

type announcement struct {
	from netip.AddrPort
	at   time.Time
}

func newAnnouncedPorts() *announcedPorts { return &announcedPorts{changed: make(chan struct{})} }

// maxAnnounced bounds connections that were announced and not accepted yet.
const maxAnnounced = 4096

func (a *announcedPorts) add(from netip.AddrPort) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expire(); len(a.waiting) >= maxAnnounced {
		a.waiting = a.waiting[1:]
	}
	a.waiting = append(a.waiting, announcement{from, time.Now()})
	close(a.changed)
	a.changed = make(chan struct{})
}

// expire forgets connections that were not accepted: somebody else may get their
// port later.
func (a *announcedPorts) expire() {
	old := time.Now().Add(-acceptTimeout)
	a.waiting = slices.DeleteFunc(a.waiting, func(w announcement) bool { return w.at.Before(old) })
}

// take reports whether a connection was announced, and forgets it.
func (a *announcedPorts) take(from netip.AddrPort) (ok bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	i := slices.IndexFunc(a.waiting, func(w announcement) bool { return w.from == from })
	if i < 0 {
		return false, a.changed
	}
	a.waiting = slices.Delete(a.waiting, i, i+1)
	return true, nil
}

// privateListener accepts the connections that srt-init makes, and closes every
// other: any program of this machine can connect to a loopback port.
type privateListener struct {
	net.Listener
	ports *announcedPorts
	port  int

	accepted chan net.Conn
	checking chan struct{} // slots
	ended    chan struct{} // closed when the listener is, after err is set
	err      error
}

// maxChecking bounds connections whose announcement is awaited. Strangers can
// fill the slots for as long as that takes; one that is announced needs none.
const maxChecking = 1024

func newPrivateListener(ln net.Listener, ports *announcedPorts, port int) *privateListener {
	p := &privateListener{Listener: ln, ports: ports, port: port,
		accepted: make(chan net.Conn), checking: make(chan struct{}, maxChecking), ended: make(chan struct{})}
	go p.loop()
	return p
}

// Addr is the address that the command knows.
func (p *privateListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port}
}

// Accept returns the next connection of the command.
func (p *privateListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.ended:
		return nil, p.err
	}
}

func (p *privateListener) loop() {
	for {
		c, err := p.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			p.err = err
			close(p.ended)
			return
		}
		if err != nil {
			time.Sleep(acceptPause) // a full descriptor table; it passes
			continue
		}
		select {
		case p.checking <- struct{}{}:
			go p.check(c)
		default:
			if ok, _ := p.ports.take(peer(c)); ok {
				go p.hand(c)
			} else {
				c.Close()
			}
		}
	}
}

const (
	acceptPause = 20 * time.Millisecond
	// announceTimeout is how long an announcement may lag behind its connection.
	announceTimeout = 2 * time.Second
	// acceptTimeout is how long a connection may lag behind its announcement.
	acceptTimeout = 10 * time.Second
)

func (p *privateListener) check(c net.Conn) {
	ours := p.ours(c)
	<-p.checking
	if ours {
		p.hand(c)
	} else {
		c.Close()
	}
}

func (p *privateListener) hand(c net.Conn) {
	select {
	case p.accepted <- c:
	case <-p.ended:
		c.Close()
	}
}

func (p *privateListener) ours(c net.Conn) bool {
	deadline := time.NewTimer(announceTimeout)
	defer deadline.Stop()
	for {
		ok, changed := p.ports.take(peer(c))
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-deadline.C:
			return false
		case <-p.ended:
			return false
		}
	}
}

// peer is the other end of a connection; nobody's where that is not known.
func peer(c net.Conn) netip.AddrPort {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		from := a.AddrPort()
		return netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	return netip.AddrPort{}
}
