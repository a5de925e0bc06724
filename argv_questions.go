package srt

import (
	"context"
	"fmt"
	"sync"
)

// questions are those of one helper that wait for an answer.
type questions struct {
	r      *remote
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting map[int]context.CancelFunc
}

func newQuestions(r *remote) *questions {
	q := &questions{r: r, waiting: map[int]context.CancelFunc{}}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// ask calls the callback. What it answers to a question that was withdrawn is
// dropped at the other end.
func (q *questions) ask(i inquiry) {
	fn := q.r.s.options.ask
	if fn == nil {
		q.r.tell(order{Answer: &answer{Number: i.Number}})
		return
	}
	ctx, cancel := context.WithCancel(q.ctx)
	q.mu.Lock()
	q.waiting[i.Number] = cancel
	q.mu.Unlock()
	i.CommandID = q.r.cmd.id
	go func() {
		defer q.withdraw(i.Number)
		a := &answer{Number: i.Number}
		defer func() {
			if p := recover(); p != nil {
				a = &answer{Number: i.Number, Failure: fmt.Sprintf("the permission callback panicked: %v", p)}
			}
			q.r.tell(order{Answer: a})
		}()
		d, err := fn(ctx, i.AskRequest)
		if a.AskDecision = d; err != nil {
			a.AskDecision, a.Failure = AskDecision{}, err.Error()
		}
	}()
}

func (q *questions) withdraw(number int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if cancel := q.waiting[number]; cancel != nil {
		cancel()
		delete(q.waiting, number)
	}
}

// close ends the contexts of all questions. Callbacks that do not look at theirs
// keep nobody waiting.
func (q *questions) close() { q.cancel() }
