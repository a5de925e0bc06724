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
	r    *bufio.Reader // on in; nil before the first byte and once a tunnel stands
	w    *bufio.Writer // on conn; the same
	who  Invocation
}

func newClient(v *service, conn net.Conn, who Invocation) *client {
	return &client{s: v.s, v: v, conn: conn, in: source{conn: conn}, who: who}
}

// source is a connection some of whose bytes were read before.
type source struct {
	held []byte
	conn net.Conn
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.held) > 0 {
		n := copy(p, s.held)
		s.held = s.held[n:]
		return n, nil
	}
	return s.conn.Read(p)
}

// serve tells SOCKS from HTTP by the first byte. The choice is final. Buffers
// are taken only when a client says something. The tunnel that the client got is
// still to be served.
func (c *client) serve() (tunnel func()) {
	c.deadline(c.s.waits.firstByte)
	first := make([]byte, 512)
	n, err := c.conn.Read(first)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	c.in.held = first[:n]
	c.r, c.w = c.s.reader(&c.in), c.s.writer(c.conn)
	defer c.dropBuffers()
	switch first[0] {
	case 0x04: // SOCKS4 has no way to say why it is refused
		return nil
	case 0x05:
		return c.serveSOCKS()
	}
	return c.serveHTTP()
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

// dropBuffers gives the buffers back. Tunnels, which can stand for days, need none.
func (c *client) dropBuffers() {
	if c.r == nil {
		return
	}
	c.s.freeReader(c.r)
	c.s.freeWriter(c.w)
	c.r, c.w = nil, nil
}

// holdsHead reports whether a whole head has come in: nothing has to be waited for.
func (c *client) holdsHead() bool {
	end := []byte("\r\n\r\n")
	ahead, _ := c.r.Peek(c.r.Buffered())
	return bytes.Contains(ahead, end) || bytes.Contains(c.in.held, end)
}

// takeBuffered returns what was read and not yet used.
func (c *client) takeBuffered() []byte {
	ahead, _ := c.r.Peek(c.r.Buffered())
	all := slices.Concat(ahead, c.in.held)
	c.in.held = nil
	c.r.Reset(&c.in)
	return all
}

// watch reads while a decision or a dial is under way, because only reading
// shows that the client left; ctx ends then. stop ends the watch: early is what
// arrived meanwhile, present whether the client is still there. A tunnel's
// client that sends more than may wait counts as gone; that of a request has to
// wait with the rest. What is over in a moment is not watched: most connections
// are made sooner than anybody leaves, and nothing else is begun for them. ctx
// ends after limit, too, unless that is 0; its cause is a DeadlineExceeded then.
func (c *client) watch(tunnel bool, limit time.Duration) (ctx context.Context, stop func() (early []byte, present bool)) {
	ctx, cancel := context.WithCancelCause(c.v.ctx)
	early := c.takeBuffered()
	done := make(chan bool, 1)
	begin := time.AfterFunc(c.s.waits.patience, func() {
		if limit > 0 {
			defer time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) }).Stop()
		}
		var present bool
		early, present = c.listen(early, tunnel)
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

func (c *client) listen(early []byte, tunnel bool) ([]byte, bool) {
	for len(early) <= maxEarly {
		early = slices.Grow(early, 512)
		n, err := c.conn.Read(early[len(early):cap(early)])
		early = early[:len(early)+n]
		if err != nil {
			return early, isTimeout(err)
		}
	}
	return early, !tunnel
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
