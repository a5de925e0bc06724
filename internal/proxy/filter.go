package proxy

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// maxReason bounds the text of a refusal, in UTF-16 code units.
const maxReason = 500

// target is a destination that the lists allow.
type target struct {
	host string // canonical
	port int
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// refusal is why a destination was not reached, by decision of the policy.
type refusal struct {
	reason string
	// resolved marks a refusal of the addresses behind an allowed name.
	resolved bool
	host     string
}

func (r *refusal) Error() string { return r.reason }

// decide asks the policy about a destination as the client wrote it, and a
// person where the policy leaves it open. A refusal is recorded.
func (s *Session) decide(ctx context.Context, host string, port int, who Invocation) (target, *refusal) {
	d := s.hosts.Load().Decide(host, port, who.AllowDomains)
	switch d.Verdict {
	case policy.Allow:
		return target{d.Host, port}, nil
	case policy.Ask:
		if s.o.Ask != nil {
			reason, allowed := s.ask(ctx, AskRequest{Host: d.Host, Port: port, Spelling: host, Command: who.Command})
			if ctx.Err() != nil {
				return target{}, &refusal{reason: "client left"} // whatever the answer was
			}
			if allowed {
				return target{d.Host, port}, nil
			}
			d.Reason = reason
		}
	}
	s.record(who, d.Host, host, port, d.Reason, d.Rule)
	return target{}, &refusal{reason: violation.Truncate(violation.Sanitize(d.Reason), maxReason), host: d.Host}
}

func (s *Session) ask(ctx context.Context, q AskRequest) (string, bool) {
	a, err := s.safeAsk(ctx, q)
	if err != nil {
		return "permission prompt failed", false
	}
	reason := violation.Truncate(violation.Sanitize(a.Reason), maxReason)
	if reason == "" {
		reason = "user denied"
	}
	return reason, a.Allow
}

// safeAsk turns a panic of the callback into a refusal.
func (s *Session) safeAsk(ctx context.Context, q AskRequest) (a AskDecision, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = AskDecision{}, fmt.Errorf("the permission callback panicked: %v", p)
		}
	}()
	return s.o.Ask(ctx, q)
}

// record stores one refused connection under the canonical host.
func (s *Session) record(who Invocation, host, spelling string, port int, reason string, rule policy.Rule) {
	shown := host
	if shown == "" {
		shown = violation.Truncate(violation.Sanitize(spelling), 255)
	}
	e := violation.Event{
		Time: time.Now(), Op: "network-outbound", Target: net.JoinHostPort(shown, strconv.Itoa(port)),
		Rule: rule.String(), Setting: rule.Cure, Command: who.Command, CommandID: who.ID,
	}
	e.Line = fmt.Sprintf("deny network-outbound %s (%s)", e.Target, reason)
	if spelling != host {
		e.Spelling = spelling
	}
	s.o.Record(e)
}
