package srt

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// until waits for what happens in other goroutines.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testutil.Eventually(t, what, holds)
}

// waitingFor counts who waits for the open questions.
func waitingFor(c *coalescer) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		n += q.waiting
	}
	return n
}

func TestCoalesceAsk(t *testing.T) {
	var calls atomic.Int32
	release := make(chan struct{})
	c := &coalescer{open: map[questionKey]*question{}, fn: func(_ context.Context, q AskRequest) (AskDecision, error) {
		n := calls.Add(1)
		<-release
		return AskDecision{Allow: q.Port == 1, Reason: q.Spelling}, errors.Join(nil, map[bool]error{true: errors.New("x")}[n > 4])
	}}
	var done sync.WaitGroup
	for _, q := range []AskRequest{
		{Host: "a", Port: 1, CommandID: "1"}, {Host: "a", Port: 1, CommandID: "1", Spelling: "A"}, {Host: "a", Port: 1, CommandID: "1"},
		{Host: "a", Port: 2, CommandID: "1"}, {Host: "a", Port: 1, CommandID: "2"}, {Host: "b", Port: 1, CommandID: "1"},
	} {
		done.Go(func() {
			if d, err := c.ask(t.Context(), q); err != nil || d.Allow != (q.Port == 1) {
				t.Errorf("%+v: %+v %v", q, d, err)
			}
		})
	}
	until(t, "six waiting", func() bool { return waitingFor(c) == 6 })
	close(release)
	done.Wait()
	if calls.Load() != 4 || len(c.open) != 0 {
		t.Errorf("%d calls, %d open", calls.Load(), len(c.open))
	}
	// An answer is not remembered, and an error reaches who waits.
	if d, err := c.ask(t.Context(), AskRequest{Host: "a", Port: 1, CommandID: "1"}); err == nil || calls.Load() != 5 {
		t.Errorf("%+v %v", d, err)
	}
}

// A question goes on as long as one of those who asked it waits, and no longer.
func TestCoalesceAskLeaving(t *testing.T) {
	ended := make(chan struct{})
	answer := make(chan AskDecision)
	c := &coalescer{open: map[questionKey]*question{}, fn: func(ctx context.Context, _ AskRequest) (AskDecision, error) {
		select {
		case d := <-answer:
			return d, nil
		case <-ctx.Done():
			close(ended)
			return AskDecision{Allow: true}, nil
		}
	}}
	q := AskRequest{Host: "a", Port: 1}
	first, leave := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() { _, err := c.ask(first, q); results <- err }()
	until(t, "one", func() bool { return waitingFor(c) == 1 })
	go func() {
		d, err := c.ask(t.Context(), q)
		if !d.Allow {
			t.Error("not allowed")
		}
		results <- err
	}()
	until(t, "two", func() bool { return waitingFor(c) == 2 })
	leave()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	answer <- AskDecision{Allow: true}
	if err := <-results; err != nil {
		t.Errorf("%v", err)
	}
	alone, leave := context.WithCancel(t.Context())
	go func() { _, err := c.ask(alone, q); results <- err }()
	until(t, "one again", func() bool { return waitingFor(c) == 1 })
	leave()
	<-results
	<-ended
}

func TestCoalesceAskPanic(t *testing.T) {
	for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
		ask := CoalesceAsk(func(context.Context, AskRequest) (AskDecision, error) {
			end()
			return AskDecision{Allow: true}, nil
		})
		if d, err := ask(t.Context(), AskRequest{}); err == nil || d.Allow {
			t.Errorf("%+v %v", d, err)
		}
	}
}
