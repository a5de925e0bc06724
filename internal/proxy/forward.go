package proxy

import (
	"errors"
	"io"
	"strings"

	"github.com/srt-sandbox/srt/internal/policy"
)

// serveHTTP answers requests until one of them ends the connection or makes it a
// tunnel.
func (c *client) serveHTTP() (tunnel func()) {
	for {
		if !c.holdsHead() {
			c.deadline(c.s.waits.head)
		}
		c.in.most = maxAfter
		h, err := readHead(c.r)
		c.in.most = 0
		if err != nil {
			c.refuseHead(err)
			return nil
		}
		c.deadline(0)
		if goesOn, tunnel := c.serveRequest(h); !goesOn {
			return tunnel
		}
		if c.r.Buffered() > 0 || len(c.in.held) > 0 {
			continue
		}
		c.dropBuffers()
		c.deadline(c.s.waits.keepAlive)
		if !c.begin() {
			return nil
		}
	}
}

// serveRequest reports whether the connection can take another request.
func (c *client) serveRequest(h *head) (goesOn bool, tunnel func()) {
	b, err := checkRequest(c, h)
	if err != nil {
		c.answer(answer{status: "400 Bad Request", close: true})
		return false, nil
	}
	who, ok := c.authenticate(h)
	connect := h.start[0] == "CONNECT"
	switch {
	case !ok && connect:
		c.answer(answer{status: statusAuth, ask: true, close: true})
		return false, nil
	case !ok:
		return c.decline(h, b, answer{status: statusAuth, ask: true}), nil
	}
	c.who = who
	if connect {
		return false, c.connect(h)
	}
	return c.forward(h, b), nil
}

func (c *client) refuseHead(err error) {
	switch {
	case errors.Is(err, errHeadTooLarge):
		c.answer(answer{status: "431 Request Header Fields Too Large", close: true})
	case errors.Is(err, errBadHead), isTimeout(err):
		c.answer(answer{status: "400 Bad Request", close: true})
	}
}

// checkRequest applies the rules that hold for every request and finds its body.
func checkRequest(c *client, h *head) (*body, error) {
	method, uri, version := h.start[0], h.start[1], h.start[2]
	if !isToken(method) || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return nil, errBadHead
	}
	for i := range len(uri) {
		if uri[i] <= 0x20 || uri[i] >= 0x7f {
			return nil, errBadHead
		}
	}
	// HTTP/1.0 knows no chunks: whoever sends them with it may mean something else.
	f, err := h.framing()
	if err != nil || f.chunked && version == "HTTP/1.0" || h.hidesFraming() {
		return nil, errBadHead
	}
	hosts := len(h.values("Host"))
	if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
		return nil, errBadHead
	}
	return newBody(c.r, f, false), nil
}

// keeps reports whether the client wants to use the connection again.
func keeps(h *head) bool {
	return h.start[2] == "HTTP/1.1" && !h.mentions("Connection", "close")
}

// decline answers a request in the server's place and reports whether the
// connection can take another one: if it can, the body is read and dropped.
func (c *client) decline(h *head, b *body, a answer) bool {
	a.head = h.start[0] == "HEAD"
	// A client that waits for permission to send its body may send it or not.
	a.close = a.close || !keeps(h) || !b.done && (len(h.values("Expect")) > 0 || b.framing.length > maxDrain)
	c.answer(a)
	if a.close {
		return false
	}
	return c.skip(b)
}

// skip reads what is left of a body that goes nowhere, if it ends soon, and
// ends the connection otherwise: what follows could not be told from the body.
func (c *client) skip(b *body) bool {
	if b.done {
		return true
	}
	b.before = nil
	c.deadline(c.s.waits.linger)
	_, _ = io.CopyN(io.Discard, b, maxDrain)
	if !b.done {
		c.linger()
	}
	return b.done
}

// forward serves one absolute-form request.
func (c *client) forward(h *head, b *body) bool {
	u, ok := parseURI(h.start[1])
	if !ok {
		return c.decline(h, b, answer{status: "400 Bad Request", body: "this proxy needs an absolute http or https URI\n", close: true})
	}
	x := newExchange(c, h, b, u)
	err := x.reach()
	var no *refusal
	switch {
	case errors.Is(err, errClientLeft):
		return false
	case errors.As(err, &no):
		return c.decline(h, b, refused(no, false))
	case err != nil:
		return c.decline(h, b, badGateway(err))
	}
	return x.run()
}

// reach decides about the request and opens a connection for it. What is not
// reached is reported here, the rest by run.
func (x *exchange) reach() (err error) {
	q := x.c.wish(protocolHTTP, x.uri.host, x.uri.port)
	q.plain, q.lists = x.uri.scheme == "http", x.s.hosts.Load()
	x.attempt = x.s.newAttempt(q, x.s.consult(q))
	defer func() {
		if err != nil {
			x.attempt.failed(err)
		}
	}()
	if x.target, err = x.c.settleRequest(x.attempt); err != nil {
		return err
	}
	if err = x.checkAgainst(x.attempt.q); err != nil {
		return err
	}
	if err = x.open(x.attempt.q); err != nil {
		x.s.noteFailure(x.target, err)
	}
	return err
}

// settleRequest watches the client only while a person is asked. Otherwise the
// end of its input may be the end of its last request, whose answer it awaits.
func (c *client) settleRequest(a *attempt) (target, error) {
	if a.d.Verdict != policy.Ask {
		return c.s.settle(c.v.ctx, a)
	}
	ctx, stop := c.watch(watchRequest, 0)
	t, err := c.s.settle(ctx, a)
	early, present := stop()
	c.in.held = early
	if !present {
		return target{}, errClientLeft
	}
	return t, err
}

// checkAgainst applies the rules about a request that is allowed by its target.
func (x *exchange) checkAgainst(q wish) error {
	h := x.request
	deny := func(kind refusalKind, setting, reason string) error {
		return x.s.refuseRequest(q, h.start[0], x.uri.shown(), refusal{
			kind: kind, host: x.target.host, reason: reason, rule: policy.Rule{Setting: setting, Cure: "set " + setting + " to false"},
		})
	}
	if x.s.o.RequireHostMatch {
		if hosts := h.values("Host"); len(hosts) > 0 && !names(hosts[0], x.target, x.uri.defaultPort()) {
			return deny(byMismatch, "network.requireHostMatch", "the Host header does not name the request's target")
		}
	}
	if x.s.o.RefuseOpaqueTunnels && x.upgrades() {
		return deny(byOpacity, "network.refuseOpaqueTunnels", "this proxy does not tunnel what it cannot inspect")
	}
	return nil
}

// names reports whether a Host header's value means the target: the host in any
// case, and the port unless it is the scheme's.
func names(value string, t target, defaultPort int) bool {
	host := t.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return strings.EqualFold(value, host+":"+itoa(t.port)) || t.port == defaultPort && strings.EqualFold(value, host)
}
