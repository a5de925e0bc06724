package policy

import (
	"context"
	"runtime"
	"sync"
)

// alone is how many directories are searched before others help: most trees end
// sooner, and starting helpers costs more than they do.
const alone = 24

// crawl calls visit for each job and for each job that visit returns, in any
// order and several at a time, until none is left or ctx ends. The first error
// ends it.
func crawl[J any](ctx context.Context, jobs []J, visit func(J) ([]J, error)) error {
	for range alone {
		if len(jobs) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		last := len(jobs) - 1
		more, err := visit(jobs[last])
		if err != nil {
			return err
		}
		jobs = append(jobs[:last], more...)
	}
	c := &crawler[J]{ctx: ctx, jobs: jobs, visit: visit}
	c.wake = sync.NewCond(&c.mu)
	var helpers sync.WaitGroup
	for range min(2*runtime.GOMAXPROCS(0), 16) {
		helpers.Go(c.work)
	}
	helpers.Wait()
	return c.err
}

// crawler is what the helpers of one crawl share.
type crawler[J any] struct {
	ctx   context.Context
	visit func(J) ([]J, error)

	mu   sync.Mutex
	wake *sync.Cond
	jobs []J
	busy int
	err  error
}

func (c *crawler[J]) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.jobs) == 0 && c.busy > 0 && c.err == nil {
			c.wake.Wait()
		}
		if c.err == nil {
			c.err = c.ctx.Err()
		}
		if len(c.jobs) == 0 || c.err != nil {
			c.wake.Broadcast()
			return
		}
		c.one()
	}
}

// one does the newest job, with the lock released meanwhile.
func (c *crawler[J]) one() {
	last := len(c.jobs) - 1
	job := c.jobs[last]
	c.jobs = c.jobs[:last]
	c.busy++
	c.mu.Unlock()
	more, err := c.visit(job)
	c.mu.Lock()
	c.busy--
	if err != nil && c.err == nil {
		c.err = err
	}
	c.jobs = append(c.jobs, more...)
	if len(more) > 0 || c.busy == 0 {
		c.wake.Broadcast()
	}
}
