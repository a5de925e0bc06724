package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
)

// connect serves one CONNECT request; the connection ends with it.
func (c *client) connect(h *head) (tunnel func()) {
	host, port, ok := splitAuthority(h.start[1], 0)
	if !ok {
		c.answer(answer{status: "400 Bad Request", close: true})
		return nil
	}
	up, early, err := c.reach(c.wish(protocolConnect, host, port))
	var no *refusal
	switch {
	case err == nil:
		return c.tunnel(up, "HTTP/1.1 200 Connection Established\r\n\r\n", early)
	case errors.Is(err, errClientLeft):
	case errors.As(err, &no):
		c.answer(refused(no, true))
	default:
		a := badGateway(err)
		a.close = true
		c.answer(a)
	}
	return nil
}

// tunnel tells the client that its tunnel stands, and returns what copies.
func (c *client) tunnel(up *leg, success string, early []byte) (copies func()) {
	s, v, conn := c.s, c.v, c.conn // and nothing else of the client, for as long as the tunnel stands
	if _, err := io.WriteString(conn, success); err != nil {
		v.release(up.raw)
		up.attempt.ended(up, 0, 0)
		return nil
	}
	return func() {
		defer v.release(up.raw)
		var sent, received int64
		defer func() { up.attempt.ended(up, sent, received) }()
		ahead := up.ahead
		up.ahead = nil
		sent, received = s.relay(conn, up.Conn, early, ahead)
	}
}

// reach decides about a tunnel and opens it. What the lists refuse is answered
// at once. Everything else takes time, in which the client is watched: early
// are the bytes that it sent meanwhile, and when it leaves nothing is dialed. What
// is not reached is reported here, the rest by tunnel.
func (c *client) reach(q wish) (up *leg, early []byte, err error) {
	q.lists = c.s.hosts.Load()
	d := c.s.consult(q)
	a := c.s.newAttempt(q, d)
	defer func() {
		switch {
		case err != nil:
			a.failed(err)
		case up != nil: // it is when something panics
			up.attempt = a
		}
	}()
	if c.s.o.RefuseOpaqueTunnels && (q.protocol != protocolConnect || d.Verdict == policy.Ask) {
		return nil, nil, c.s.refuseOpaque(q, d) // whatever the destination is; nobody is asked in vain
	}
	if d.Verdict == policy.Deny {
		_, err = c.s.settle(c.v.ctx, a)
		return nil, nil, err
	}
	limit := time.Duration(0) // a person may think for as long as it takes
	if d.Verdict == policy.Allow {
		limit, a.q.limited = c.s.waits.dial, true
	}
	how := watchTunnel
	if q.protocol == protocolDirect {
		how = watchDirect
	}
	ctx, stop := c.watch(how, limit)
	t, err := c.s.settle(ctx, a)
	if err == nil && c.s.o.RefuseOpaqueTunnels {
		err = c.s.refuseOpaque(q, d)
	}
	if err == nil {
		up, err = c.s.dial(ctx, t, a.q)
	}
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = fmt.Errorf("connecting to %s: %w (%w)", t, context.DeadlineExceeded, err)
	}
	early, present := stop()
	if up != nil && !c.v.hold(up.raw) {
		return nil, nil, errClientLeft
	}
	if !present {
		if up != nil {
			c.v.release(up.raw)
		}
		return nil, nil, errClientLeft
	}
	if err != nil {
		c.s.noteFailure(t, err)
	}
	return up, early, err
}

func (s *Session) refuseOpaque(q wish, d policy.HostDecision) *refusal {
	return s.refuse(q, refusal{
		kind: byOpacity, host: d.Host, reason: opaqueReason,
		rule: policy.Rule{Setting: "network.refuseOpaqueTunnels", Cure: "set network.refuseOpaqueTunnels to false"},
	})
}
