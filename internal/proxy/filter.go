package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// wish is a destination as a client asks for it.
type wish struct {
	protocol protocol
	host     string // as written
	port     int
	who      Invocation
	lists    *lists // that judge and route it; nil for those in force
	plain    bool   // an http URI, which an upstream proxy takes as it is
	granted  bool   // a person has allowed this very connection
	limited  bool   // the context ends with the time for a dial
}

// listsFor returns what a wish is judged and routed by.
func (s *Session) listsFor(q wish) *lists {
	if q.lists != nil {
		return q.lists
	}
	return s.hosts.Load()
}

type protocol string

const (
	protocolConnect protocol = "connect"
	protocolHTTP    protocol = "http"
	protocolSOCKS   protocol = "socks"
	// protocolDirect is a connection that a program made without a proxy, and
	// protocolNames a name lookup of such a program.
	protocolDirect protocol = "transparent"
	protocolNames  protocol = "dns"
)

// target is a destination that the policy allows.
type target struct {
	host string // canonical
	port int
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// refusal is the error of a destination that was not reached by decision of the
// policy. It has been recorded.
type refusal struct {
	kind   refusalKind
	host   string // canonical; empty when malformed
	reason string
	rule   policy.Rule
}

type refusalKind uint8

const (
	byLists    refusalKind = iota
	byAddress              // the addresses behind an allowed name
	byOpacity              // a tunnel that nobody inspects
	byMismatch             // the request names another server than its target
)

func (r *refusal) Error() string { return r.reason }

// errClientLeft means that nobody waits for an answer any more.
var errClientLeft = errors.New("the client left")

// consult asks the lists. The verdict is Ask only when somebody can be asked and
// has not been asked yet.
func (s *Session) consult(q wish) policy.HostDecision {
	d := s.listsFor(q).Decide(q.host, q.port, q.who.AllowDomains)
	switch {
	case d.Verdict != policy.Ask:
	case s.o.Ask == nil:
		d.Verdict = policy.Deny
	case q.granted:
		d = policy.HostDecision{Verdict: policy.Allow, Host: d.Host, Rule: answerRule(d)}
	}
	return d
}

// settle turns the decision of an attempt into a target or a refusal, and asks a
// person where the lists leave it open; the decision then becomes the answer.
func (s *Session) settle(ctx context.Context, a *attempt) (target, error) {
	q, d := &a.q, &a.d
	if d.Verdict == policy.Ask {
		reason, allowed := s.ask(ctx, AskRequest{Host: d.Host, Port: q.port, Spelling: q.host, Command: q.who.Command, CommandID: q.who.ID})
		if ctx.Err() != nil {
			return target{}, errClientLeft // whatever the answer was
		}
		// The lists may have changed meanwhile. They come before the answer, and route
		// what it allows.
		q.lists = s.hosts.Load()
		now := s.consult(*q)
		switch {
		case !allowed:
			d.Verdict, d.Reason, d.Rule = policy.Deny, reason, answerRule(*d)
		case now.Verdict == policy.Ask:
			d.Verdict, d.Reason, d.Rule = policy.Allow, "", answerRule(*d)
		default:
			*d = now
		}
	}
	if d.Verdict == policy.Allow {
		return target{d.Host, q.port}, nil
	}
	return target{}, s.refuse(*q, refusal{kind: byLists, host: d.Host, reason: d.Reason, rule: d.Rule})
}

// refuse records one refusal under the canonical host.
func (s *Session) refuse(q wish, r refusal) *refusal {
	r.reason = violation.Sanitize(r.reason)
	if r.reason == "" {
		r.reason = policy.ReasonDenied // a configured text may consist of what Sanitize takes out
	}
	e := s.event(q, r)
	switch {
	case r.kind == byOpacity && q.protocol != protocolConnect:
		e.Op = string(q.protocol) + "-tunnel"
		e.Line = "deny " + e.Op + " " + e.Target + " (refuseOpaqueTunnels)"
	case r.kind == byOpacity:
		e.Op = "http-request"
		e.Line = fmt.Sprintf("deny http-request CONNECT %s (%s)", e.Target, r.reason)
	default:
		e.Line = fmt.Sprintf("deny network-outbound %s (%s)", e.Target, r.reason)
	}
	s.o.Record(e)
	return &r
}

// refuseRequest records the refusal of one request, whose URL is safe to show.
func (s *Session) refuseRequest(q wish, method, url string, r refusal) *refusal {
	e := s.event(q, r)
	e.Op, e.Target = "http-request", violation.Sanitize(url)
	e.Line = fmt.Sprintf("deny http-request %s %s (%s)", violation.Sanitize(method), e.Target, r.reason)
	s.o.Record(e)
	return &r
}

func (s *Session) event(q wish, r refusal) violation.Event {
	shown := r.host
	if shown == "" {
		shown = violation.Truncate(violation.Sanitize(q.host), 255)
	}
	e := violation.Event{
		Time: time.Now(), Op: "network-outbound", Target: net.JoinHostPort(shown, strconv.Itoa(q.port)),
		Rule: r.rule.String(), Setting: r.rule.Cure, Command: q.who.Command, CommandID: q.who.ID,
	}
	if q.host != r.host {
		e.Spelling = q.host
	}
	return e
}
