package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// AskRequest is a destination that no list decided about.
type AskRequest struct {
	Host string // canonical
	Port int
	// Spelling is the host as the client wrote it.
	Spelling string
	// Command and CommandID are the command that wants to connect.
	Command, CommandID string
}

// AskDecision answers an AskRequest. The zero value denies.
type AskDecision struct {
	Allow bool
	// Reason is told to the client and recorded when Allow is false.
	Reason string
}

// maxQuestions bounds the questions that wait for their answers. A client can
// leave while its question waits, so the number of connections is no bound.
const maxQuestions = 1024

var (
	errManyQuestions = errors.New("too many questions wait for an answer")
	errNoReturn      = errors.New("the permission callback did not return")
)

// answerRule is the rule of a destination that a person decided about.
func answerRule(d policy.HostDecision) policy.Rule {
	r := policy.Rule{Setting: "the answer to the question"}
	if d.Rule.Cure != "" {
		r.Cure = "allow it when asked, or " + d.Rule.Cure
	}
	return r
}

// ask returns why the destination is refused, or that it is allowed.
func (s *Session) ask(ctx context.Context, q AskRequest) (string, bool) {
	a, err := s.callAsk(ctx, q)
	if err != nil {
		if ctx.Err() == nil {
			s.o.Logger.Warn("asking for permission", "host", q.Host, "error", err)
		}
		return "permission prompt failed", false
	}
	reason := violation.Truncate(violation.Sanitize(a.Reason), maxReason)
	if reason == "" {
		reason = "user denied"
	}
	return reason, a.Allow
}

// callAsk waits for the answer or for the end of the context, whichever is
// first: a callback that ignores its context keeps no connection and no end of
// a session waiting.
func (s *Session) callAsk(ctx context.Context, q AskRequest) (AskDecision, error) {
	select {
	case s.questions <- struct{}{}:
	default:
		return AskDecision{}, errManyQuestions
	}
	type answer struct {
		AskDecision
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		a := answer{err: errNoReturn}
		defer func() { // the callback may end this goroutine, as a failing test does
			<-s.questions
			answered <- a
		}()
		a.AskDecision, a.err = s.safeAsk(ctx, q)
	}()
	select {
	case a := <-answered:
		return a.AskDecision, a.err
	case <-ctx.Done():
		return AskDecision{}, ctx.Err()
	}
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
