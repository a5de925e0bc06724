// Package srt runs commands so that the operating system itself limits which
// files they read and write and which hosts they talk to.
//
//	sb, err := srt.New(ctx, cfg)
//	if err != nil { … }
//	defer sb.Close()
//	cmd := sb.Command(ctx, "npm", "install")
//	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
//	err = cmd.Run()
//
// A [Sandbox] holds one configuration and the network filter; each [Cmd] made
// from it runs in namespaces of its own. There is no global state: a process
// may hold any number of sandboxes, and every method is safe for concurrent use
// unless it says otherwise.
//
// On Linux the inside of a sandbox is supervised by the calling program itself,
// re-executed; no other binary is needed. The package takes such a process over
// before main.
package srt

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/accesslog"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Violation is one operation that the policy refused: Line is the text for
// people, the other fields say what was refused, by which rule, and which
// setting would allow it.
type Violation = violation.Event

// Sandbox is a configuration in force: the policy that commands are held to and
// the network filter that serves them.
type Sandbox struct {
	options options
	filter  *proxy.Session
	events  *violation.Store
	log     *accesslog.Log // nil without one
	access  func(Access)   // nil where nobody wants to know
	config  atomic.Pointer[config.Config]

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	closed    bool
	door      *door // for commands that other programs start; nil until there is one
	running   sync.WaitGroup
	collect   sync.Once // what killed runs left behind
	unguarded sync.Once // what that means was said
}

// New checks the configuration and starts the network filter. The context
// bounds the start only; use [Sandbox.Close] to end the sandbox. Errors: a
// [*config.Error] for an invalid configuration, an [*UnsupportedError] for a
// setting this system or version cannot enforce, [ErrUnsupportedPlatform].
func New(ctx context.Context, cfg *config.Config, opts ...Option) (*Sandbox, error) {
	o := options{logger: slog.New(slog.DiscardHandler), warn: func(string) {}, lookup: os.LookupEnv}
	for _, opt := range opts {
		opt(&o)
	}
	// Warnings name files, and whoever named those may not be the user.
	warn := o.warn
	o.warn = func(text string) { warn(violation.Escape(text)) }
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := checkSupported(cfg); err != nil {
		return nil, err
	}
	if _, err := newLauncher(cfg); err != nil {
		return nil, err
	}
	s := &Sandbox{options: o, events: violation.NewStore()}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := s.startFilter(cfg); err != nil {
		return nil, err
	}
	s.noteQuestions(cfg)
	return s, nil
}

// Config returns a copy of the configuration in force.
func (s *Sandbox) Config() *config.Config { return s.config.Load().Clone() }

// Violations returns the refused operations that are still held, oldest first.
// The newest hundred are kept; they survive [Sandbox.Close].
func (s *Sandbox) Violations() []Violation { return s.events.List(-1) }

// Subscribe delivers every violation from now on until ctx ends. A reader that
// falls behind loses the oldest ones.
func (s *Sandbox) Subscribe(ctx context.Context) <-chan Violation { return s.events.Subscribe(ctx) }

// Update replaces the configuration. The host lists and network.mitmProxy take
// effect at the next connection, of running commands too, both at the same
// moment; everything else at the next command. Only network.parentProxy,
// requireHostMatch, refuseOpaqueTunnels and stripResponseHeaders stay what they
// were when the sandbox was made. A configuration that is invalid or cannot be enforced changes nothing.
func (s *Sandbox) Update(cfg *config.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := checkSupported(cfg); err != nil {
		return err
	}
	if _, err := newLauncher(cfg); err != nil {
		return err
	}
	hosts, err := policy.NewHosts(cfg)
	if err != nil {
		return err
	}
	mitm, err := proxy.NewMITM(cfg.Network.MITMProxy)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.config.Store(cfg.Clone())
	s.filter.Update(hosts, mitm)
	s.events.SetIgnore(cfg.IgnoreViolations)
	return s.door.update(cfg)
}

// Close kills the commands that still run, ends every connection and waits for
// both. A further call returns at once, also while the first one waits.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.cancel(ErrClosed)
	s.running.Wait()
	s.door.close()
	err := s.filter.Close()
	if s.log != nil {
		s.log.Close()
	}
	return err
}

// enter registers a command that is about to start.
func (s *Sandbox) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.running.Add(1)
	return nil
}

// Option changes how a sandbox works without changing its policy.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	warn      func(string)
	helper    string
	protected []string
	prepared  *Prepared
	ask       AskFunc
	access    []func(Access)
	accessLog io.Writer
	// lookup reads the environment of the process whose sandbox this is, record is
	// told each violation.
	lookup func(string) (string, bool)
	record func(Violation)
}

// WithLogger sends debug information to l. It never holds tokens or contents.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithWarnings calls fn for each thing a user should know, such as a settings
// entry that has no effect. fn must be safe for concurrent use.
func WithWarnings(fn func(string)) Option { return func(o *options) { o.warn = fn } }

// WithHelper names an installed srt binary that helps ssh inside a sandbox and
// starts the commands of [Cmd.Argv], for programs that do not call
// [MaybeExecHelper].
func WithHelper(path string) Option { return func(o *options) { o.helper = path } }

// WithProtectedFiles adds files that no command may change whatever the
// settings allow, such as the file the settings came from.
func WithProtectedFiles(paths ...string) Option {
	return func(o *options) { o.protected = append(o.protected, paths...) }
}

// protectedFiles are the files that decide about later runs.
func (s *Sandbox) protectedFiles() []string {
	files := append([]string(nil), s.options.protected...)
	if exe, err := os.Executable(); err == nil {
		files = append(files, exe)
	}
	if s.options.helper != "" {
		files = append(files, s.options.helper)
	}
	return files
}
