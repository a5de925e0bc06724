package srt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/proxy"
)

// AskRequest is a destination that no list decided about.
type AskRequest = proxy.AskRequest

// AskDecision answers an [AskRequest]. The zero value denies.
type AskDecision = proxy.AskDecision

// AskFunc answers questions about destinations, see [WithAsk].
type AskFunc = func(context.Context, AskRequest) (AskDecision, error)

// WithAsk calls fn for each connection, and each plain HTTP request, to a host
// that no list decides about; never for one on network.deniedDomains, and not at
// all under network.strictAllowlist. The connection waits for the answer.
//
// fn must be safe for concurrent use: connections ask at the same time, also
// several about one destination, see [CoalesceAsk]. Answers are not remembered.
// There is no timeout; the context ends when the client leaves and when the
// sandbox is closed, and an answer that comes later is dropped. An error and a
// panic deny. Lists that [Sandbox.Update] brought meanwhile come before the answer.
func WithAsk(fn AskFunc) Option { return func(o *options) { o.ask = fn } }

// noteQuestions says where nobody will be asked although somebody could be.
func (s *Sandbox) noteQuestions(cfg *config.Config) {
	switch n := &cfg.Network; {
	case s.options.ask == nil:
	case n.StrictAllowlist:
		s.options.warn("nobody is asked about hosts: network.strictAllowlist is set")
	case n.HTTPProxyPort != 0:
		s.options.warn("nobody is asked about connections through the proxy of network.httpProxyPort, which does its own filtering")
	}
}

// CoalesceAsk returns a function for [WithAsk] that calls fn once for all equal
// questions that wait at the same time: those of one command about one host and
// port. Its answer goes to all of them and is then forgotten. The context of the
// call ends when none of them waits any more.
func CoalesceAsk(fn AskFunc) AskFunc {
	c := &coalescer{fn: fn, open: map[questionKey]*question{}}
	return c.ask
}

type coalescer struct {
	fn AskFunc

	mu   sync.Mutex
	open map[questionKey]*question
}

// questionKey leaves out how a client spells the host.
type questionKey struct {
	host, command string
	port          int
}

type question struct {
	waiting  int
	cancel   context.CancelFunc
	answered chan struct{} // closed when decision and err are set
	decision AskDecision
	err      error
}

func (c *coalescer) ask(ctx context.Context, r AskRequest) (AskDecision, error) {
	key := questionKey{host: r.Host, command: r.CommandID, port: r.Port}
	q := c.join(ctx, key, r)
	defer c.leave(key, q)
	select {
	case <-q.answered:
		return q.decision, q.err
	case <-ctx.Done():
		return AskDecision{}, ctx.Err()
	}
}

// join returns the open question, which may be new.
func (c *coalescer) join(ctx context.Context, key questionKey, r AskRequest) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[key]
	if q == nil {
		// The question outlives the first who asked it.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &question{cancel: cancel, answered: make(chan struct{})}
		c.open[key] = q
		go c.call(own, key, r, q)
	}
	q.waiting++
	return q
}

// leave cancels a question that nobody waits for. The next one is a new one.
func (c *coalescer) leave(key questionKey, q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.waiting--; q.waiting == 0 {
		q.cancel()
		c.forget(key, q)
	}
}

func (c *coalescer) forget(key questionKey, q *question) {
	if c.open[key] == q {
		delete(c.open, key)
	}
}

func (c *coalescer) call(ctx context.Context, key questionKey, r AskRequest, q *question) {
	defer close(q.answered)
	defer func() {
		if p := recover(); p != nil {
			q.decision, q.err = AskDecision{}, fmt.Errorf("the permission callback panicked: %v", p)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(key, q)
	}()
	q.err = errors.New("the permission callback did not return") // as with runtime.Goexit
	q.decision, q.err = c.fn(ctx, r)
}
