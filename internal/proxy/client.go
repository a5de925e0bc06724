package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// client is one accepted connection.
type client struct {
	s    *Session
	v    *service
	conn net.Conn
	in   source
	r    *bufio.Reader // on in; nil while nothing is parsed
	out  *bufio.Writer // on conn; nil while nothing is written, see writer
	busy bool          // it has one of the service's places for what needs buffers
	who  Invocation
}

func newClient(v *service, conn net.Conn, who Invocation) *client {
	return &client{s: v.s, v: v, conn: conn, in: source{conn: conn}, who: who}
}

// source is a connection some of whose bytes were read before.
type source struct {
	held []byte
	conn net.Conn
	// most bounds a read; 0 for no bound. What a client sends after a head waits in
	// the kernel.
	most int
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.held) > 0 {
		n := copy(p, s.held)
		s.held = s.held[n:]
		return n, nil
	}
	if s.most > 0 && len(p) > s.most {
		p = p[:s.most]
	}
	return s.conn.Read(p)
}

// serve tells SOCKS from HTTP by the first byte. The choice is final. Buffers
// are taken only when a client says something. The tunnel that the client got is
// still to be served.
func (c *client) serve() (tunnel func()) {
	c.deadline(c.s.waits.firstByte)
	defer c.dropBuffers()
	if !c.begin() {
		return nil
	}
	switch c.in.held[0] {
	case 0x04: // SOCKS4 has no way to say why it is refused
		return nil
	case 0x05:
		return c.serveSOCKS()
	}
	return c.serveHTTP()
}

// begin waits for the client to say something, and only then takes what reading it
// needs.
func (c *client) begin() bool {
	first := make([]byte, 512)
	n, err := c.conn.Read(first)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	c.in.held = first[:n]
	return c.takeBuffers()
}

// deadline bounds the next reads; zero lifts the bound.
func (c *client) deadline(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = c.conn.SetReadDeadline(at)
}

// interrupt ends a read that is under way in another goroutine.
func (c *client) interrupt() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// takeBuffers waits for a place among those of the service whose messages are
// being read or passed on: their buffers are what clients can make the filter hold.
func (c *client) takeBuffers() bool {
	select {
	case c.v.busy <- struct{}{}:
	default:
		timer := time.NewTimer(c.s.waits.head)
		defer timer.Stop()
		select {
		case c.v.busy <- struct{}{}:
		case <-timer.C:
			return false
		case <-c.v.ctx.Done():
			return false
		}
	}
	c.busy = true
	c.r = c.s.reader(&c.in)
	return true
}

// writer returns the buffer for what is said to the client.
func (c *client) writer() *bufio.Writer {
	if c.out == nil {
		c.out = c.s.writer(c.conn)
	}
	return c.out
}

// dropBuffers gives the buffers back. Tunnels, which can take long to be opened and
// stand for days, need none.
func (c *client) dropBuffers() {
	if c.r != nil {
		c.s.freeReader(c.r)
	}
	if c.out != nil {
		c.s.freeWriter(c.out)
	}
	c.r, c.out = nil, nil
	if c.busy {
		c.busy = false
		<-c.v.busy
	}
}

// holdsHead reports whether a whole head has come in: nothing has to be waited for.
func (c *client) holdsHead() bool {
	end := []byte("\r\n\r\n")
	ahead, _ := c.r.Peek(c.r.Buffered())
	return bytes.Contains(ahead, end) || bytes.Contains(c.in.held, end)
}

// takeBuffered returns what was read and not yet used.
func (c *client) takeBuffered() []byte {
	if c.r == nil {
		return nil
	}
	ahead, _ := c.r.Peek(c.r.Buffered())
	all := slices.Concat(ahead, c.in.held)
	c.in.held = nil
	c.r.Reset(&c.in)
	return all
}

// watched says what a client may do while a decision or a dial is under way.
type watched uint8

const (
	// watchTunnel is for clients that get an answer before they have to say anything:
	// one that ends its side, or sends more than may wait, counts as gone.
	watchTunnel watched = iota
	// watchRequest is for those whose request may have a body. It waits with what
	// does not fit.
	watchRequest
	// watchDirect is for programs that take the connection for made already. They say
	// what they want and may end their side.
	watchDirect
)

// watch looks whether the client leaves while a decision or a dial is under way;
// ctx ends then. stop ends the watch: early is what the client sent and has been
// read, present whether it is still there. What is over in a moment is not
// watched: most connections are made sooner than anybody leaves, and nothing else
// is begun for them. ctx ends after limit, too, unless that is 0; its cause is a
// DeadlineExceeded then.
func (c *client) watch(how watched, limit time.Duration) (ctx context.Context, stop func() (early []byte, present bool)) {
	ctx, cancel := context.WithCancelCause(c.v.ctx)
	early := c.takeBuffered()
	if how != watchRequest {
		c.dropBuffers()
	}
	done := make(chan bool, 1)
	begin := time.AfterFunc(c.s.waits.patience, func() {
		if limit > 0 {
			defer time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) }).Stop()
		}
		var present bool
		early, present = c.listen(early, how)
		if !present {
			cancel(errClientLeft)
		}
		done <- present
	})
	return ctx, func() ([]byte, bool) {
		present := true
		if !begin.Stop() {
			c.interrupt()
			present = <-done
			c.deadline(0)
		}
		cancel(nil)
		return early, present
	}
}

// listenByReading is listen where only reading shows that the client left.
func (c *client) listenByReading(early []byte, how watched) ([]byte, bool) {
	for len(early) <= maxEarly {
		early = slices.Grow(early, 512)
		n, err := c.conn.Read(early[len(early):cap(early)])
		early = early[:len(early)+n]
		if err != nil {
			return early, isTimeout(err) || how == watchDirect && errors.Is(err, io.EOF)
		}
	}
	return early, how != watchTunnel
}

// linger ends the connection so that what was sent arrives: closing with unread
// input would turn into a reset, which can discard it.
func (c *client) linger() {
	closeWrite(c.conn)
	c.deadline(c.s.waits.linger)
	_, _ = io.CopyN(io.Discard, c.conn, maxDrain)
}

func (s *Session) reader(from io.Reader) *bufio.Reader {
	if r, ok := s.readers.Get().(*bufio.Reader); ok {
		r.Reset(from)
		return r
	}
	return bufio.NewReaderSize(from, maxHead)
}

func (s *Session) freeReader(r *bufio.Reader) {
	r.Reset(nil)
	s.readers.Put(r)
}

func (s *Session) writer(to io.Writer) *bufio.Writer {
	if w, ok := s.writers.Get().(*bufio.Writer); ok {
		w.Reset(to)
		return w
	}
	return bufio.NewWriter(to)
}

func (s *Session) freeWriter(w *bufio.Writer) {
	w.Reset(nil)
	s.writers.Put(w)
}
