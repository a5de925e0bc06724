package job

import (
	"errors"
	"os"
	"os/signal"
	"sync"
)

// Relay ends the command when the console asks this process to end.
type Relay struct {
	signals   chan os.Signal
	interrupt func(error)

	mu  sync.Mutex
	cmd Command
}

// NewRelay takes the signals over and calls interrupt for one that ends the start.
func NewRelay(interrupt func(error)) *Relay {
	r := &Relay{signals: make(chan os.Signal, 4), interrupt: interrupt}
	signal.Notify(r.signals, os.Interrupt)
	go r.loop()
	return r
}

// Stop leaves the signals to others.
func (r *Relay) Stop() { signal.Stop(r.signals) }

// Attach names the command that gets the signals from now on.
func (r *Relay) Attach(cmd Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = cmd
}

func (r *Relay) escalated() int { return 0 }

func (r *Relay) loop() {
	for range r.signals {
		r.mu.Lock()
		cmd := r.cmd
		r.mu.Unlock()
		if cmd == nil {
			r.interrupt(errors.New("interrupted"))
			continue
		}
		_ = cmd.Kill()
	}
}

// A console has no foreground group, and a process ends by no signal.
func inForeground() bool { return false }

// DieInterrupted returns the status to exit with.
func DieInterrupted() int { return 1 }
