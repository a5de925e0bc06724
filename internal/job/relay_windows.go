package job

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"
)

// Relay ends the command when the console asks this process to end.
type Relay struct {
	signals   chan os.Signal
	interrupt func(error)

	mu     sync.Mutex
	cmd    Command
	giveUp func() // set when the command has ended
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

// Finish says that the command has ended and that nothing is left but to tell. Who
// asks for the end gets it: giveUp is called when the rest takes longer than a moment.
func (r *Relay) Finish(giveUp func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUp = giveUp
}

func (r *Relay) escalated() int { return 0 }

func (r *Relay) loop() {
	for range r.signals {
		r.mu.Lock()
		cmd, giveUp := r.cmd, r.giveUp
		r.mu.Unlock()
		if giveUp != nil {
			time.AfterFunc(lastWords, giveUp)
			continue
		}
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
