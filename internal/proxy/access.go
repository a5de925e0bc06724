package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// ProtocolExternal is the Protocol of connections about which srt decides
// nothing: all that is known of them is the proxy that they went to.
const ProtocolExternal = "external"

// Access is one decision about a destination and what became of it. It holds
// neither URLs nor headers nor credentials.
type Access struct {
	// Time is that of the request, Duration how long it and its connection took.
	Time     time.Time
	Duration time.Duration
	// Protocol is how the client asked: "connect", "http", "socks", "transparent"
	// without a proxy, "dns" for the lookup of a name, which has no port, or
	// "external" for a connection that an external proxy serves and decides about.
	Protocol string
	// Host is canonical, or what the client wrote where that is no host.
	Host string
	Port int
	// Address is the one that was dialed, Via the kind of proxy that it belongs
	// to: "parent", "mitm", "external", or empty for the destination itself.
	Address, Via string
	// Allowed says that the policy lets the command reach the destination. Rule
	// is what decided, Reason and Setting why not and what would allow it.
	Allowed               bool
	Rule, Reason, Setting string
	// Err is why the destination was not reached, whoever decided that.
	Err error
	// Sent and Received count what went to the server and came from it.
	Sent, Received int64
	// Command and CommandID are the command that asked.
	Command, CommandID string
}

// Failure names the kind of an error that is no refusal, in words that never
// hold anything a client or a server said; empty for none.
func (a *Access) Failure() string {
	var dns *net.DNSError
	var timeout net.Error
	switch err := a.Err; {
	case err == nil || !a.Allowed && !errors.Is(err, errClientLeft):
		return ""
	case errors.Is(err, errClientLeft):
		return "client left"
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case isRefused(err):
		return "connection refused"
	case isUnreachable(err):
		return "network unreachable"
	}
	return "failed"
}

// attempt is one wish on its way into the access log.
type attempt struct {
	s     *Session
	q     wish
	d     policy.HostDecision
	began time.Time
}

func (s *Session) newAttempt(q wish, d policy.HostDecision) *attempt {
	return &attempt{s: s, q: q, d: d, began: time.Now()}
}

// failed reports an attempt that opened no connection.
func (t *attempt) failed(err error) { t.report(nil, err, 0, 0) }

// ended reports a connection that is over.
func (t *attempt) ended(up *leg, sent, received int64) { t.report(up, nil, sent, received) }

func (t *attempt) report(up *leg, err error, sent, received int64) {
	if t.s.o.Access == nil {
		return
	}
	var no *refusal
	a := Access{
		Time: t.began, Duration: time.Since(t.began), Protocol: string(t.q.protocol), Host: t.d.Host, Port: t.q.port, Err: err,
		Rule: t.d.Rule.String(), Sent: sent, Received: received, Command: t.q.who.Command, CommandID: t.q.who.ID,
		Allowed: err == nil || !errors.As(err, &no) && !errors.Is(err, errClientLeft),
	}
	if no != nil {
		a.Rule, a.Reason, a.Setting = no.rule.String(), no.reason, no.rule.Cure
	}
	if a.Host == "" {
		a.Host = shownHost(t.q.host)
	}
	if up != nil {
		a.Address = up.raw.RemoteAddr().String()
	}
	if a.Allowed {
		a.Via = t.s.via(t.d.Host, t.q)
	}
	t.s.o.Access(a)
}

// via names the kind of proxy that carries connections to a host.
func (s *Session) via(host string, q wish) string {
	switch p := s.o.Parent; {
	case q.protocol == protocolNames:
		return ""
	case s.listsFor(q).mitm.handles(host):
		return "mitm"
	case q.plain && p.forwards(host), !q.plain && p.tunnels(host):
		return "parent"
	}
	return ""
}

// shownHost makes what a client wrote in the place of a host fit for the log:
// what looks like credentials or a path stays out.
func shownHost(host string) string {
	end := strings.IndexAny(host, "/?#")
	at := strings.LastIndexByte(host, '@')
	switch {
	case end >= 0 && at > end:
		return "" // either a password or a path holds a mark of the other
	case end >= 0:
		host = host[at+1 : end]
	default:
		host = host[at+1:]
	}
	return violation.Truncate(violation.Sanitize(host), 255)
}

// Read and Write count; copies between two TCP connections stay in the kernel
// and go around them.
func (l *leg) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.received.Add(int64(n))
	return n, err
}

func (l *leg) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	l.sent.Add(int64(n))
	return n, err
}
