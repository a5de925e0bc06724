package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange is one request and its response. Two goroutines work on it: one
// feeds the request's body to the server, the other relays the response, because
// a server may answer before it has read everything.
type exchange struct {
	c       *client
	s       *Session
	request *head
	body    *body
	uri     uri
	target  target
	attempt *attempt

	up        *leg
	r         *bufio.Reader
	w         *bufio.Writer
	viaProxy  *field                              // credentials for an upstream proxy
	absolute  bool                                // the next hop is a proxy and takes the whole URI
	failure   error                               // why there is no usable response; nil for no particular reason
	hopFailed func(doing string, err error) error // makes an error of the next hop where that is a proxy
	permitted bool                                // the server asked for the body with 100 Continue

	sent  chan struct{} // closed when nothing more of the body is sent
	fed   chan struct{} // closed when the client's input is no longer read
	write error         // of sending the body

	mu       sync.Mutex
	answered bool // the response has begun
	over     bool // the client need not be watched any more
	hurried  bool // what is left of the body gets a moment only
}

func newExchange(c *client, h *head, b *body, u uri) *exchange {
	x := &exchange{c: c, s: c.s, request: h, body: b, uri: u, sent: make(chan struct{}), fed: make(chan struct{})}
	b.before = x.beforeRead
	return x
}

// open connects to the next hop by the first route that applies.
func (x *exchange) open(q wish) error {
	ctx, cancel := context.WithTimeout(x.c.v.ctx, x.s.waits.dial)
	defer cancel()
	var err error
	switch m, p := x.s.listsFor(q).mitm, x.s.o.Parent; {
	case m.handles(x.target.host):
		x.absolute, x.hopFailed = true, m.failed
		x.up, err = m.connect(ctx)
	case x.uri.scheme == "http" && p.forwards(x.target.host) && p.http.socks():
		x.up, err = p.http.tunnel(ctx, x.target, q, x.s)
	case x.uri.scheme == "http" && p.forwards(x.target.host):
		x.absolute, x.hopFailed, x.viaProxy = true, p.http.failed, p.http.auth
		x.up, err = p.http.connect(ctx, x.s)
	case x.uri.scheme == "http":
		x.up, err = x.s.dialDirect(ctx, x.target, q)
	default:
		if x.up, err = x.s.dial(ctx, x.target, q); err == nil {
			x.up, err = x.up.startTLS(ctx, &tls.Config{ServerName: x.target.host, NextProtos: []string{"http/1.1"}, RootCAs: x.s.o.Roots})
		}
	}
	if err != nil {
		return err
	}
	if !x.c.v.hold(x.up.raw) {
		return errClientLeft
	}
	x.r, x.w = x.s.reader(x.up), x.s.writer(x.up)
	x.up.sent.Store(0) // what was said to an upstream proxy
	x.up.received.Store(0)
	return nil
}

// run sends the request, relays the response and reports whether the client's
// connection can take another request.
func (x *exchange) run() bool {
	defer func() {
		x.c.v.release(x.up.raw)
		x.attempt.ended(x.up, x.up.sent.Load(), x.up.received.Load())
		x.dropBuffers()
	}()
	if err := x.sendHead(); err != nil {
		return x.c.decline(x.request, x.body, badGateway(nil))
	}
	go x.s.safely(x.feed)
	switch x.relayResponse() {
	case nothing:
		x.up.raw.Close()
		x.quiet()
		if x.failure != nil {
			x.s.noteFailure(x.target, x.failure)
		}
		return x.c.decline(x.request, x.body, badGateway(x.failure))
	case last:
		x.up.raw.Close()
		x.quiet()
		x.c.linger()
	case whole:
		return x.finishBody()
	}
	return false
}

// dropBuffers gives the buffers back.
func (x *exchange) dropBuffers() {
	if x.r != nil {
		x.s.freeReader(x.r)
		x.s.freeWriter(x.w)
		x.r, x.w = nil, nil
	}
}

// finishBody reads what is left of the body after the whole response was
// relayed: only then can the next request be found.
func (x *exchange) finishBody() bool {
	x.quiet()
	if x.body.done || x.write != nil { // where the server wants no more of it, it is dropped
		return x.c.skip(x.body)
	}
	x.c.linger()
	return false
}

// upgrades reports whether the request asks for another protocol. HTTP/2 is not
// among them: its requests would be judged by nobody.
func (x *exchange) upgrades() bool {
	wanted := x.request.values("Upgrade")
	return x.request.start[2] == "HTTP/1.1" && x.request.mentions("Connection", "upgrade") &&
		len(wanted) == 1 && !strings.Contains(strings.ToLower(wanted[0]), "h2")
}

// sendHead writes the request with one framing and the canonical authority.
func (x *exchange) sendHead() error {
	host := authority(x.target.host, x.target.port, x.uri.defaultPort())
	path := x.uri.path
	if x.absolute {
		// The next hop is spoken to without TLS and opens its own.
		host = authority(x.target.host, x.target.port, 80)
		path = "http://" + host + path
	}
	fields := append([]field{{"Host", host}}, x.request.endToEnd()...)
	switch f := x.body.framing; {
	case f.chunked:
		fields = append(fields, field{"Transfer-Encoding", "chunked"})
	case f.sized:
		fields = append(fields, field{"Content-Length", strconv.FormatInt(f.length, 10)})
	}
	if x.viaProxy != nil {
		fields = append(fields, *x.viaProxy)
	}
	if x.upgrades() {
		fields = append(fields, field{"Connection", "Upgrade"}, field{"Upgrade", x.request.values("Upgrade")[0]})
	} else {
		fields = append(fields, field{"Connection", "close"})
	}
	if err := writeHead(x.w, x.request.start[0]+" "+path+" HTTP/1.1", fields); err != nil {
		return err
	}
	return x.w.Flush()
}

// feed sends the body. One that the client cuts off ends the connection to the
// server: it must not look complete. Then the client only waits, and reading on
// shows whether it still does.
func (x *exchange) feed() {
	defer close(x.fed)
	var read error
	func() {
		defer close(x.sent)
		if read, x.write = x.s.copyBody(x.w, x.body, x.body.framing.chunked); read != nil {
			x.up.raw.Close()
		}
	}()
	if read != nil || x.write != nil || !x.beginWatch() {
		return
	}
	_, err := x.c.r.Peek(1)
	if errors.Is(err, io.EOF) {
		x.inputEnded()
		err = nil
	}
	if err == nil && x.c.breaksOff() || err != nil && !isTimeout(err) {
		x.up.raw.Close()
	}
}

// beforeRead bounds the wait for the next part of the body.
func (x *exchange) beforeRead() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.hurried {
		x.c.deadline(x.s.waits.body)
	}
}

func (x *exchange) beginWatch() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.c.deadline(0)
	return true
}

// inputEnded bounds the wait for the response: a client that sends no more may
// be waiting for its last answer or may be gone, which looks the same.
func (x *exchange) inputEnded() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered {
		_ = x.up.SetReadDeadline(time.Now().Add(x.s.waits.left))
	}
}

// begun notes that the response has begun, which may take as long as it likes, and
// reports whether the body was sent.
func (x *exchange) begun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	_ = x.up.SetReadDeadline(time.Time{})
	return isClosed(x.sent)
}

// unwatch ends the watch over the client, whose answer has come, and reports
// whether the body was sent.
func (x *exchange) unwatch() bool {
	x.mu.Lock()
	x.answered, x.over = true, true
	sent := isClosed(x.sent)
	if sent {
		x.c.interrupt()
	}
	x.mu.Unlock()
	if sent {
		<-x.fed
		x.c.deadline(0)
	}
	_ = x.up.SetReadDeadline(time.Time{})
	return sent
}

// quiet waits until nobody reads the client's input any more; the rest of a
// body gets a moment.
func (x *exchange) quiet() {
	if x.unwatch() {
		return
	}
	x.mu.Lock()
	x.hurried = true
	x.c.deadline(x.s.waits.linger)
	x.mu.Unlock()
	_ = x.up.SetWriteDeadline(time.Now().Add(x.s.waits.linger))
	<-x.fed
	x.c.deadline(0)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
