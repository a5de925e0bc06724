package srt

import (
	"os"
	"sync"

	"github.com/srt-sandbox/srt/internal/launch"
)

// Prepared is the empty shell of a sandbox: a waiting process in namespaces of
// its own, made before the settings are known. It takes most of the time of a
// start off the way of the first command.
type Prepared struct {
	streams launch.Streams
	err     error // reported by the command that would have used the shell

	mu  sync.Mutex
	box launch.Sandbox
}

// Prepare makes the shell of a sandbox for a command with these streams. Call
// it as early as possible, give it to [New] with [WithPrepared], and close it.
func Prepare(stdin, stdout, stderr *os.File, newSession bool) *Prepared {
	p := &Prepared{streams: launch.Streams{Stdio: [3]*os.File{stdin, stdout, stderr}, NewSession: newSession}}
	launcher, err := newLauncher()
	if err == nil {
		p.box, err = launcher.Prepare(p.streams)
	}
	p.err = err
	return p
}

// WithPrepared lets the first command whose streams are those of p use its shell.
func WithPrepared(p *Prepared) Option { return func(o *options) { o.prepared = p } }

// Close ends the shell if no command took it over.
func (p *Prepared) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.box != nil {
		p.box.Close()
		p.box = nil
	}
}

// take hands the shell to a command that it fits. ok is false when the command
// has to make its own.
func (p *Prepared) take(want launch.Streams) (box launch.Sandbox, ok bool, err error) {
	if p == nil || p.streams != want {
		return nil, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	box, p.box = p.box, nil
	err, p.err = p.err, nil
	return box, box != nil || err != nil, err
}
