package main

import (
	"errors"
	"os"
	"os/signal"
	"sync"

	srt "github.com/srt-sandbox/srt"
)

// signalRelay ends the command when the console asks srt to end.
type signalRelay struct {
	signals   chan os.Signal
	interrupt func(error)

	mu  sync.Mutex
	cmd *srt.Cmd
}

func newSignalRelay(interrupt func(error)) *signalRelay {
	r := &signalRelay{signals: make(chan os.Signal, 4), interrupt: interrupt}
	signal.Notify(r.signals, os.Interrupt)
	go r.loop()
	return r
}

func (r *signalRelay) stop() { signal.Stop(r.signals) }

func (r *signalRelay) attach(cmd *srt.Cmd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = cmd
}

func (r *signalRelay) escalated() int { return 0 }

func (r *signalRelay) loop() {
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
func inForeground() bool  { return false }
func dieInterrupted() int { return statusRefused }
