package proxy

import (
	"sync"
	"sync/atomic"
)

// workers are goroutines that serve the beginnings of connections, one after the
// other: heads, decisions and dials need a deep stack, which takes time to grow. A
// tunnel, which may stand for days, goes on in goroutines of its own, whose stacks
// stay small.
type workers struct {
	jobs  chan func() // to those that are idle
	idle  atomic.Int32
	ended chan struct{}
	wait  sync.WaitGroup
}

// maxIdleWorkers bounds those that wait for the next connection.
const maxIdleWorkers = 32

func newWorkers() *workers {
	return &workers{jobs: make(chan func()), ended: make(chan struct{})}
}

// do runs a job aside, in an idle worker if there is one.
func (w *workers) do(job func()) {
	select {
	case w.jobs <- job:
	default:
		w.wait.Go(func() { w.run(job) })
	}
}

func (w *workers) run(job func()) {
	for {
		job()
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case job = <-w.jobs:
			w.idle.Add(-1)
		case <-w.ended:
			return
		}
	}
}

// end lets the idle ones go and waits for the others. No job may come afterwards.
func (w *workers) end() {
	close(w.ended)
	w.wait.Wait()
}
