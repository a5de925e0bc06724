package inside

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// direct makes connections without a proxy work: before the command's socket is
// connected to an address, srt-init asks the host half, and listens on exactly
// that address. The kernel then completes the connection inside the sandbox, and
// the host half, which accepts it, sees where the program wanted to go.
type direct struct {
	control   int
	anywhere  bool         // not only the ports of this machine
	hostPorts map[int]bool // of the loopback
	own       map[int]bool // of the loopback, which are not the host's
	most      int          // listeners

	mu        sync.Mutex
	listening map[netip.AddrPort]bool
	waiting   map[uint32]chan bool
	last      uint32
	open      map[connectCall]*connectQuestion
	// paused says that the callers may be stopped while somebody is asked.
	paused func() bool
}

// connectCall is a thread in connect(2).
type connectCall struct {
	thread int
	to     netip.AddrPort
}

// connectQuestion is a question about a call. Where a person is asked the caller
// is stopped meanwhile, which interrupts its call; the kernel then starts the call
// again, as a new one. So the answer waits for it.
type connectQuestion struct {
	answered chan struct{} // closed when allowed is set
	allowed  bool
	ends     time.Time   // when the answer is forgotten; set with it
	waits    func() bool // whether the last of the calls still waits
	joined   bool        // there is another call than the first
}

// maxListening bounds the listeners of one sandbox; each is a descriptor of the
// host half, which needs others for connections.
const maxListening = 1024

// mostListeners is the bound where a process may have so many descriptors.
func mostListeners(descriptors uint64) int { return int(min(maxListening, descriptors/4)) }

func newDirect(control int, s *Spec) *direct {
	d := &direct{control: control, anywhere: s.Filter.Direct, hostPorts: map[int]bool{}, own: map[int]bool{namePort: true}, listening: map[netip.AddrPort]bool{}, waiting: map[uint32]chan bool{}, open: map[connectCall]*connectQuestion{}, paused: func() bool { return false }}
	d.most = maxListening
	if limit := (unix.Rlimit{}); unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		d.most = mostListeners(limit.Max) // that of the host half, too
	}
	for _, p := range s.HostPorts {
		d.hostPorts[p] = true
	}
	// What reaches a published port comes from outside: it must not get out again.
	for _, p := range s.Published {
		delete(d.hostPorts, p)
		d.own[p] = true
	}
	for _, p := range s.Ports {
		d.own[p] = true
	}
	return d
}

// concerns reports whether a connection needs help.
func (d *direct) concerns(to netip.AddrPort) bool {
	if to.Addr().IsLoopback() || to.Addr().IsUnspecified() {
		return d.hostPorts[int(to.Port())]
	}
	return d.anywhere
}

// admit gets a connection ready and returns the error number that the program
// gets; 0 lets it connect.
func (d *direct) admit(c connectCall, stillWaiting func() bool) unix.Errno {
	to := c.to
	local := to.Addr().IsLoopback() || to.Addr().IsUnspecified()
	if to.Port() == namePort && !local {
		return 0 // name lookups are answered whatever server they are meant for
	}
	if local && d.servedInside(to) {
		return 0
	}
	if !d.mayConnect(c, stillWaiting) {
		if local {
			return unix.ECONNREFUSED
		}
		return unix.ENETUNREACH
	}
	return d.listen(to)
}

// servedInside reports whether a server of the command listens on a port of the
// loopback: it comes before the one outside.
func (d *direct) servedInside(to netip.AddrPort) bool {
	// The attempt must not get in the way of listen for another connection.
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listening[to] {
		return false
	}
	fd, err := bindOn(familyOf(to), sockaddrOf(to))
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EADDRINUSE)
}

// listen makes the listener for an address, once, and hands it out.
func (d *direct) listen(to netip.AddrPort) unix.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listening[to] {
		return 0
	}
	if len(d.listening) >= d.most {
		return unix.ENOBUFS
	}
	fd, err := listenOn(familyOf(to), sockaddrOf(to))
	if err != nil {
		return unix.ENETUNREACH // the command listens there itself
	}
	defer unix.Close(fd)
	if err := SendMessage(d.control, MessageListener, nil, fd); err != nil {
		return unix.ENETDOWN
	}
	d.listening[to] = true
	return 0
}

// askPoll is how often a waiting question looks whether anybody still waits.
const askPoll = 200 * time.Millisecond

// answerTime is how long an answer waits for the call that it belongs to.
const answerTime = 2 * time.Second

// mayConnect asks once for a call and those that it is started again as.
func (d *direct) mayConnect(c connectCall, stillWaiting func() bool) bool {
	q, ours := d.question(c, stillWaiting)
	if !ours {
		<-q.answered
		d.forget(c, q)
		return q.allowed
	}
	var answered bool
	q.allowed, answered = d.ask(c.to, q)
	d.mu.Lock()
	keep := answered && !q.joined && !stillWaiting()
	q.ends = time.Now().Add(answerTime)
	d.mu.Unlock()
	if !keep {
		d.forget(c, q)
	}
	close(q.answered)
	return q.allowed
}

// question returns the one about a call; ours is a new one.
func (d *direct) question(c connectCall, stillWaiting func() bool) (q *connectQuestion, ours bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for call, q := range d.open {
		if !q.ends.IsZero() && now.After(q.ends) {
			delete(d.open, call)
		}
	}
	if q = d.open[c]; q != nil {
		q.joined, q.waits = true, stillWaiting
		return q, false
	}
	q = &connectQuestion{answered: make(chan struct{}), waits: stillWaiting}
	d.open[c] = q
	return q, true
}

func (d *direct) forget(c connectCall, q *connectQuestion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[c] == q {
		delete(d.open, c)
	}
}

// wanted reports whether somebody waits for an answer, or will after a pause.
func (d *direct) wanted(q *connectQuestion) bool {
	d.mu.Lock()
	waits := q.waits
	d.mu.Unlock()
	return waits() || d.paused()
}

// ask waits for the host half's answer, which may be a person's. answered is false
// when nobody waits for it any more.
func (d *direct) ask(to netip.AddrPort, q *connectQuestion) (allowed, answered bool) {
	answer := make(chan bool, 1)
	d.mu.Lock()
	d.last++
	id := d.last
	d.waiting[id] = answer
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.waiting, id)
		d.mu.Unlock()
	}()
	body := binary.BigEndian.AppendUint32(nil, id)
	body = binary.BigEndian.AppendUint16(body, to.Port())
	if err := SendMessage(d.control, MessageAsk, append(body, to.Addr().AsSlice()...)); err != nil {
		return false, false
	}
	for {
		select {
		case ok := <-answer:
			return ok, true
		case <-time.After(askPoll):
			if !d.wanted(q) {
				_ = SendMessage(d.control, MessageUnask, binary.BigEndian.AppendUint32(nil, id))
				return false, false
			}
		}
	}
}

// answered delivers an answer of the host half.
func (d *direct) answered(body []byte) {
	if len(body) != 5 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if answer := d.waiting[binary.BigEndian.Uint32(body)]; answer != nil {
		select {
		case answer <- body[4] == 1:
		default: // answered already
		}
	}
}

func familyOf(a netip.AddrPort) int {
	if a.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddrOf(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// destination reads the address of a connect(2) as far as a listener could stand
// for it. Dual-stack sockets write IPv4 addresses in IPv6 form; the kernel
// connects them to the IPv4 listener.
func destination(raw []byte) (netip.AddrPort, bool) {
	address, e := parseSockaddr(raw)
	if e != 0 || address == nil {
		return netip.AddrPort{}, false
	}
	var to netip.AddrPort
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		to = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		to = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	if to.Addr().IsUnspecified() { // means this machine
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if to.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		to = netip.AddrPortFrom(loopback, to.Port())
	}
	return to, to.Port() != 0 && !to.Addr().IsMulticast()
}
