package proxy

import (
	"sync"
	"testing"
)

// Jobs run beside each other however many there are; few workers stay for the next
// ones, and none when it is over.
func TestWorkers(t *testing.T) {
	w := newWorkers()
	const jobs = 3 * maxIdleWorkers
	release := make(chan struct{})
	var running, over sync.WaitGroup
	running.Add(jobs)
	for range jobs {
		over.Add(1)
		w.do(func() {
			defer over.Done()
			running.Done()
			<-release
		})
	}
	running.Wait()
	close(release)
	over.Wait()
	eventually(t, "the end of most workers", func() bool { return w.idle.Load() == maxIdleWorkers })
	again := make(chan struct{})
	w.do(func() { close(again) })
	<-again
	w.end()
	select {
	case w.jobs <- func() {}:
		t.Error("a worker is left")
	default:
	}
}
