package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// client is one accepted connection.
type client struct {
	s    *Session
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	who  Invocation
}

func newClient(s *Session, conn net.Conn, who Invocation) *client {
	return &client{s: s, conn: conn, r: bufio.NewReaderSize(conn, maxHead), w: bufio.NewWriter(conn), who: who}
}

// serve tells SOCKS from HTTP by the first byte. The choice is final.
func (c *client) serve() {
	c.deadline(firstByteWait)
	first, err := c.r.Peek(1)
	if err != nil {
		return
	}
	switch first[0] {
	case 0x04: // SOCKS4 has no way to say why it is refused
	case 0x05:
		c.serveSOCKS()
	default:
		c.serveHTTP()
	}
}

// deadline bounds the next reads; zero lifts the bound.
func (c *client) deadline(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = c.conn.SetReadDeadline(at)
}

// serveHTTP answers requests until one of them ends the connection.
func (c *client) serveHTTP() {
	for {
		c.deadline(headWait)
		h, err := readHead(c.r)
		if err != nil {
			c.refuseHead(err)
			return
		}
		c.deadline(0)
		if problem := checkRequest(h); problem != "" {
			c.answer(answer{status: problem, close: true})
			return
		}
		if h.start[0] == "CONNECT" {
			c.connect(h)
			return
		}
		if !c.forward(h) {
			return
		}
		c.deadline(keepAliveWait)
		if _, err := c.r.Peek(1); err != nil {
			return
		}
	}
}

func (c *client) refuseHead(err error) {
	switch {
	case errors.Is(err, errHeadTooLarge):
		c.answer(answer{status: "431 Request Header Fields Too Large", close: true})
	case errors.Is(err, errBadHead):
		c.answer(answer{status: "400 Bad Request", close: true})
	case isTimeout(err):
		c.answer(answer{status: "400 Bad Request", close: true})
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// checkRequest applies the rules that hold for every request, and returns the
// status of a request that breaks one.
func checkRequest(h *head) string {
	const bad = "400 Bad Request"
	method, uri, version := h.start[0], h.start[1], h.start[2]
	if !isToken(method) || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return bad
	}
	for i := range len(uri) {
		if uri[i] <= 0x20 || uri[i] >= 0x7f {
			return bad
		}
	}
	if _, err := h.framing(); err != nil {
		return bad
	}
	hosts := len(h.values("Host"))
	if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
		return bad
	}
	return ""
}

// answer is a response of the proxy itself.
type answer struct {
	status string // code and phrase
	tag    string // X-Proxy-Error
	body   string
	close  bool
	head   bool // answer to HEAD: no body follows
}

// answer sends a response. Before the connection is closed, what the client
// still sends is read for a moment: closing with unread input would turn into a
// reset that can discard the answer.
func (c *client) answer(a answer) {
	fields := []field{{"Content-Type", "text/plain"}}
	if a.tag != "" {
		fields = append(fields, field{"X-Proxy-Error", a.tag})
	}
	fields = append(fields, field{"Content-Length", itoa(len(a.body))})
	if a.close {
		fields = append(fields, field{"Connection", "close"})
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(headWait))
	_ = writeHead(c.w, "HTTP/1.1 "+a.status, fields)
	if !a.head {
		_, _ = c.w.WriteString(a.body)
	}
	_ = c.w.Flush()
	_ = c.conn.SetWriteDeadline(time.Time{})
	if a.close {
		c.linger()
	}
}

const lingerWait = time.Second

func (c *client) linger() {
	closeWrite(c.conn)
	c.deadline(lingerWait)
	_, _ = io.CopyN(io.Discard, c.conn, 1<<20)
}

// closeWrite ends one direction of a connection that can do that.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

const (
	tagList     = "blocked-by-allowlist"
	tagResolved = "blocked-by-sandbox-runtime"
)

// refused is the answer to a destination that the policy does not allow. The
// reason stands in the phrase of a CONNECT, where clients show it, and in the
// second line of the body.
func refused(r *refusal, connect bool) answer {
	a := answer{status: "403 Forbidden", tag: tagList, body: "Connection blocked by network allowlist\n" + asciiOnly(r.reason) + "\n"}
	if r.resolved {
		a.tag = tagResolved
		a.body = "Connection to " + r.host + " blocked: " + asciiOnly(r.reason) + "\n"
	}
	if connect {
		a.status = "403 " + asciiOnly(r.reason)
		a.close = true
	}
	return a
}

// asciiOnly makes a text fit for a status line.
func asciiOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

// watch looks for the client's leaving while a decision or a dial is under
// way. Bytes that arrive early are kept. stop ends the watch and returns them;
// ok is false when the client is gone or sent more than may wait.
func (c *client) watch() (ctx context.Context, stop func() (early []byte, ok bool)) {
	ctx, cancel := context.WithCancel(c.s.ctx)
	early, _ := c.r.Peek(c.r.Buffered())
	early = append([]byte(nil), early...)
	_, _ = c.r.Discard(len(early))
	done := make(chan error, 1)
	go func() {
		var err error
		buf := make([]byte, 4096)
		for err == nil {
			var n int
			n, err = c.conn.Read(buf)
			early = append(early, buf[:n]...)
			if len(early) > maxEarly {
				err = errors.New("too many bytes before the connection stands")
			}
		}
		if !isTimeout(err) {
			cancel()
		}
		done <- err
	}()
	return ctx, func() ([]byte, bool) {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		err := <-done
		_ = c.conn.SetReadDeadline(time.Time{})
		cancel()
		return early, isTimeout(err)
	}
}
