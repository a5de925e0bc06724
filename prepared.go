package srt

import (
	"os"
	"runtime"
	"sync"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// Prepared is the empty shell of a sandbox: a waiting process in namespaces of
// its own, made while the settings are still being read. It takes most of the
// time of a start off the way of the first command.
type Prepared struct {
	launcher launch.Launcher
	streams  launch.Streams
	ready    chan struct{} // closed when box and err are set
	box      launch.Sandbox
	err      error // reported by the command that would have used the shell

	mu    sync.Mutex
	taken bool
}

// Prepare makes the shell of a sandbox for a command with these streams, in the
// background. Call it as early as possible, give it to [New] with
// [WithPrepared], and close it.
func Prepare(stdin, stdout, stderr *os.File, newSession bool) *Prepared {
	// The settings are not known yet; most want the default.
	launcher, err := newLauncher(config.Default())
	if err != nil {
		p := &Prepared{err: err, ready: make(chan struct{})}
		close(p.ready)
		return p
	}
	return prepareShell(launcher, launch.Streams{Stdio: [3]*os.File{stdin, stdout, stderr}, NewSession: newSession})
}

func prepareShell(launcher launch.Launcher, streams launch.Streams) *Prepared {
	p := &Prepared{launcher: launcher, streams: streams, ready: make(chan struct{})}
	go func() {
		defer close(p.ready)
		p.box, p.err = launcher.Prepare(streams)
	}()
	// Creating the namespaces is the longest step of a start: it goes first, on
	// this thread, and the caller goes on with another.
	runtime.Gosched()
	return p
}

// WithPrepared lets the first command whose streams are those of p use its shell.
func WithPrepared(p *Prepared) Option { return func(o *options) { o.prepared = p } }

// Close ends the shell if no command took it over.
func (p *Prepared) Close() {
	if !p.claim() {
		return
	}
	if box, err := p.wait(); err == nil {
		box.Close()
	}
}

// claim reports whether the shell is the caller's now.
func (p *Prepared) claim() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.taken
	p.taken = true
	return !was
}

// wait returns the shell once it exists. Only who claimed it may call this.
func (p *Prepared) wait() (launch.Sandbox, error) {
	<-p.ready
	return p.box, p.err
}

// shell starts making the first process of a command's sandbox, unless one that
// fits is waiting.
func (s *Sandbox) shell(launcher launch.Launcher, streams launch.Streams) *Prepared {
	if p := s.options.prepared; p != nil && p.launcher == launcher && p.streams == streams && p.claim() {
		return p
	}
	p := prepareShell(launcher, streams)
	p.claim()
	return p
}
