package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// uri is the destination and the path of an absolute-form request target.
type uri struct {
	scheme string
	host   string
	port   int
	// path is what goes to the server, byte for byte.
	path string
}

// parseURI reads an absolute http or https URI. User information and fragment
// are dropped; nothing of the path is normalised.
func parseURI(s string) (uri, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	u := uri{scheme: strings.ToLower(scheme)}
	port := map[string]int{"http": 80, "https": 443}[u.scheme]
	if !ok || port == 0 {
		return u, false
	}
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	authority = strings.TrimSuffix(authority, ":")
	u.path, _, _ = strings.Cut(rest[end:], "#")
	if !strings.HasPrefix(u.path, "/") {
		u.path = "/" + u.path
	}
	u.host, u.port, ok = splitAuthority(authority, port)
	return u, ok
}

// forward serves one absolute-form request and reports whether the connection
// can take another.
func (c *client) forward(h *head) bool {
	isHead := h.start[0] == "HEAD"
	u, ok := parseURI(h.start[1])
	if !ok {
		c.answer(answer{status: "400 Bad Request", body: "this proxy needs an absolute http or https URI\n", close: true, head: isHead})
		return false
	}
	t, no := c.s.decide(c.s.ctx, u.host, u.port, c.who)
	if no != nil {
		return c.refuseForward(h, no)
	}
	x := &exchange{c: c, request: h, uri: u, target: t}
	err := x.open()
	if errors.As(err, &no) {
		return c.refuseForward(h, no)
	}
	if err != nil {
		c.s.o.Logger.Debug("connecting", "target", t.String(), "error", err)
		c.answer(answer{status: "502 Bad Gateway", body: "Bad Gateway\n", close: true, head: isHead})
		return false
	}
	defer c.s.release(x.upstream)
	return x.run()
}

// maxDrain is how much of a refused upload is read to keep the connection.
const maxDrain = 1 << 20

func (c *client) refuseForward(h *head, no *refusal) bool {
	a := refused(no, false)
	a.head = h.start[0] == "HEAD"
	f, _ := h.framing()
	a.close = f.chunked || f.length > maxDrain || h.start[2] == "HTTP/1.0" || h.mentions("Connection", "close")
	c.answer(a)
	if a.close {
		return false
	}
	c.deadline(lingerWait)
	_, err := io.CopyN(io.Discard, c.r, f.length)
	return err == nil
}

// exchange is one request and its response.
type exchange struct {
	c        *client
	request  *head
	uri      uri
	target   target
	upstream net.Conn
	r        *bufio.Reader
	w        *bufio.Writer
	viaProxy *field // credentials of an upstream proxy
	absolute bool   // the next hop is a proxy and takes the whole URI
}

// open connects to the next hop.
func (x *exchange) open() error {
	s := x.c.s
	switch {
	case s.o.MITM.handles(x.target.host):
		conn, err := s.o.MITM.connect(s.ctx)
		if err != nil {
			return err
		}
		x.absolute = true
		x.upstream, err = s.adopt(conn)
		return x.ready(err)
	case x.uri.scheme == "http" && s.o.Parent.forwards(x.target.host):
		conn, auth, err := s.o.Parent.connectHTTP(s.ctx, s.o.Dial)
		if err != nil {
			return err
		}
		x.absolute, x.viaProxy = true, auth
		x.upstream, err = s.adopt(conn)
		return x.ready(err)
	}
	conn, err := s.dial(s.ctx, x.target, x.c.who)
	if err == nil && x.uri.scheme == "https" {
		err = x.startTLS(conn)
		return x.ready(err)
	}
	x.upstream = conn
	return x.ready(err)
}

// startTLS verifies the server for the canonical name.
func (x *exchange) startTLS(conn net.Conn) error {
	secure := tls.Client(conn, &tls.Config{ServerName: x.target.host, NextProtos: []string{"http/1.1"}})
	_ = conn.SetDeadline(time.Now().Add(dialWait))
	if err := secure.Handshake(); err != nil {
		x.c.s.release(conn)
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	x.c.s.forget(conn)
	upstream, err := x.c.s.adopt(secure)
	x.upstream = upstream
	return err
}

func (x *exchange) ready(err error) error {
	if err == nil {
		x.r, x.w = bufio.NewReaderSize(x.upstream, maxHead), bufio.NewWriter(x.upstream)
	}
	return err
}

// run sends the request and relays the response while the body is still being
// sent, because a server may answer early.
func (x *exchange) run() bool {
	if err := x.sendHead(); err != nil {
		x.badGateway()
		return false
	}
	sent := make(chan error, 1)
	go func() { sent <- x.sendBody() }()
	keep := x.relayResponse()
	if !keep {
		x.c.conn.Close()
		x.upstream.Close()
		<-sent
		return false
	}
	// The response is complete. What is left of the body gets a moment: whether
	// the connection can go on depends on having read it to its end.
	x.c.deadline(lingerWait)
	_ = x.upstream.SetWriteDeadline(time.Now().Add(lingerWait))
	return <-sent == nil
}

func (x *exchange) upgrades() bool {
	return x.request.mentions("Connection", "upgrade") && len(x.request.values("Upgrade")) == 1
}

// sendHead writes the request with one framing and the canonical authority.
func (x *exchange) sendHead() error {
	authority := x.target.host
	if strings.Contains(authority, ":") {
		authority = "[" + authority + "]"
	}
	if def := map[string]int{"http": 80, "https": 443}[x.uri.scheme]; x.target.port != def {
		authority += ":" + strconv.Itoa(x.target.port)
	}
	path := x.uri.path
	if x.absolute {
		path = x.uri.scheme + "://" + authority + path
	}
	fields := append([]field{{"Host", authority}}, x.request.endToEnd()...)
	switch f, _ := x.request.framing(); {
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

// sendBody streams the request's body. A body that the client cuts off ends the
// upstream connection: it must not look complete.
func (x *exchange) sendBody() error {
	f, _ := x.request.framing()
	var err error
	switch {
	case f.chunked:
		err = copyChunked(x.w, x.c.r)
	case f.length > 0:
		if err = copySized(x.w, x.c.r, f.length); err == nil {
			err = x.w.Flush()
		}
	}
	if err != nil && !isUpstreamGone(err) {
		x.upstream.Close()
	}
	return err
}

// isUpstreamGone tells a server that stopped reading, and may still answer,
// from a client that stopped sending.
func isUpstreamGone(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "write"
}

func (x *exchange) badGateway() {
	x.c.answer(answer{status: "502 Bad Gateway", body: "Bad Gateway\n", close: true, head: x.request.start[0] == "HEAD"})
}
