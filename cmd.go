package srt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// Cmd is one command to run in a sandbox. Its fields mean what those of
// [os/exec.Cmd] mean and may be changed until Start. A Cmd cannot be reused.
type Cmd struct {
	// Path is the program. Without a slash it is looked up along the command's
	// own PATH, inside the sandbox.
	Path string
	// Args holds the arguments, the program's name first.
	Args []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Env is the environment the sandbox's own variables are added to; nil
	// means the caller's.
	Env []string
	// Stdin, Stdout and Stderr are connected as in os/exec: nil means the null
	// device, an *os.File is handed over as it is, anything else goes through a
	// pipe. Wait returns the error of a reader or writer after a command that ends
	// with status 0, but unlike os/exec does not wait for a reader that blocks.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// AllowDomains lists hosts that this command may reach in addition to
	// network.allowedDomains, in the same form. deniedDomains still wins, and
	// network.strictAllowlist switches the list off.
	AllowDomains []string
	// Publish lists ports that lead to servers of this command, in addition to
	// network.publishPorts; see [Cmd.Published].
	Publish []config.Publish
	// Limits bound this command; those that are set replace the ones of the
	// settings.
	Limits *config.Limits
	// NewSession runs the command without the caller's controlling terminal.
	NewSession bool
	// Trace reports refused opens for reading as well as refused changes. Every
	// open then takes a few microseconds longer. Linux only.
	Trace bool
	// NullFD is a descriptor number that is the null device in the command, for
	// callers that use the number themselves; 0 for none.
	NullFD int
	// Cancel is called when the context ends; by default it sends SIGTERM.
	Cancel func() error
	// WaitDelay is how long the command may take after Cancel before the whole
	// sandbox is killed; zero means two seconds.
	WaitDelay time.Duration

	sandbox *Sandbox
	ctx     context.Context
	id      string

	mu      sync.Mutex
	started bool
	run     *run
}

// defaultWaitDelay is the grace period between a polite and a forced end.
const defaultWaitDelay = 2 * time.Second

// Command returns a command that runs name with the given arguments, byte for byte.
func (s *Sandbox) Command(ctx context.Context, name string, arg ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, arg...), sandbox: s, ctx: ctx, id: rand.Text()}
}

// Shell returns a command that runs a script with bash. The arguments become
// $0, $1 and so on.
func (s *Sandbox) Shell(ctx context.Context, script string, arg ...string) *Cmd {
	return s.Command(ctx, "bash", append([]string{"-c", script}, arg...)...)
}

// ID returns the random name under which the command's violations are recorded.
func (c *Cmd) ID() string { return c.id }

// Start sets the sandbox up and starts the command. A [*StartError] or
// [*config.Error] means that nothing ran; a [*CommandError] may also come from Wait.
func (c *Cmd) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return ErrAlreadyStarted
	}
	if c.sandbox == nil {
		return ErrNotSandboxed
	}
	c.started = true
	if err := c.sandbox.enter(); err != nil {
		return err
	}
	r, err := c.sandbox.start(c)
	if err != nil {
		c.sandbox.running.Done()
		return err
	}
	c.run = r
	return nil
}

// checkStrings refuses what no system takes; execve(2) does not say what it was.
func (c *Cmd) checkStrings() error {
	what := ""
	holds := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	if holds(c.Path) {
		what = "the program's name"
	}
	for i, a := range c.Args {
		if what == "" && holds(a) {
			what = fmt.Sprintf("argument %d", i)
		}
	}
	for _, e := range c.Env {
		if what == "" && holds(e) {
			name, _, _ := strings.Cut(e, "=")
			what = fmt.Sprintf("the environment variable %q", name)
		}
	}
	if what == "" {
		return nil
	}
	text := fmt.Sprintf("starting %q: %s holds a NUL byte, which no system takes", c.Path, what)
	return &StartError{Stage: "start", Text: text, Cure: "remove it", Err: syscall.EINVAL}
}

// Wait waits for the command to end and everything of its sandbox to be gone.
// It returns nil for status 0, an [*ExitError] for any other end, and a
// [*CommandError] when the program could not be started.
func (c *Cmd) Wait() error {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return ErrNotStarted
	}
	<-r.done
	if r.err != nil {
		return r.err
	}
	if r.status != (launch.Status{}) {
		return &ExitError{Status: r.status, Violations: c.Violations()}
	}
	return nil
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("srt: Stdout already set")
	}
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard
// error together.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("srt: Stdout or Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// Signal sends a signal to the command and the processes of its group, as a
// terminal would.
func (c *Cmd) Signal(s os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return ErrNotStarted
	}
	return c.run.box.Signal(s)
}

// Kill ends every process of the command's sandbox at once.
func (c *Cmd) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return ErrNotStarted
	}
	c.run.box.Kill()
	return nil
}

// Published returns the ports of this machine that lead to servers of the command,
// those of the settings first, in their order. There are none before Start.
func (c *Cmd) Published() []Published {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return nil
	}
	return slices.Clone(c.run.published.ports)
}

// Violations returns the operations that were refused to this command, oldest
// first; complete after Wait.
func (c *Cmd) Violations() []Violation {
	if c.sandbox == nil {
		return nil
	}
	return c.sandbox.events.ForCommand(c.id)
}

// streams turns the three streams into files. The files named in opened belong
// to the run and are closed once the command has its own copies; copiers move
// the data of streams that are no files.
type streams struct {
	stdio   [3]*os.File
	opened  []*os.File
	copiers []func() error
	ours    []io.Closer            // the other ends of pipes
	feed    func(fed chan<- error) // moves the data of standard input, if that is no file
}

func (c *Cmd) openStreams() (*streams, error) {
	s := &streams{}
	err := s.input(c.Stdin)
	if err == nil {
		err = s.output(1, c.Stdout)
	}
	if err == nil && sameWriter(c.Stdout, c.Stderr) {
		s.stdio[2] = s.stdio[1]
	} else if err == nil {
		err = s.output(2, c.Stderr)
	}
	if err != nil {
		s.closeAll()
		return nil, fmt.Errorf("connecting the command's streams: %w", err)
	}
	return s, nil
}

// sameWriter compares without panicking on types that cannot be compared.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

func (s *streams) input(r io.Reader) error {
	if f, ok := r.(*os.File); ok && f != nil {
		s.stdio[0] = f
		return nil
	}
	if r == nil {
		return s.null(0, os.O_RDONLY)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	s.stdio[0] = pr
	s.opened, s.ours = append(s.opened, pr), append(s.ours, pw)
	s.feed = func(fed chan<- error) {
		_, err := io.Copy(pw, r)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
			err = nil // a command that does not read its input to the end is no error
		}
		fed <- err // before the command sees the end of its input
		pw.Close()
	}
	return nil
}

func (s *streams) output(i int, w io.Writer) error {
	if f, ok := w.(*os.File); ok && f != nil {
		s.stdio[i] = f
		return nil
	}
	if w == nil {
		return s.null(i, os.O_WRONLY)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	s.stdio[i] = pw
	s.opened = append(s.opened, pw)
	s.ours = append(s.ours, pr)
	s.copiers = append(s.copiers, func() error {
		defer pr.Close() // whoever writes on after an error of w learns of it
		_, err := io.Copy(w, pr)
		return err
	})
	return nil
}

func (s *streams) null(i, mode int) error {
	f, err := os.OpenFile(os.DevNull, mode, 0)
	if err != nil {
		return err
	}
	s.stdio[i] = f
	s.opened = append(s.opened, f)
	return nil
}

// handedOver closes what the command now holds itself and starts the copies. wait
// returns the first error of a reader or writer, once the command is gone and its
// output was written. It does not wait for a reader that has nothing to tell.
func (s *streams) handedOver() (wait func() error) {
	for _, f := range s.opened {
		f.Close()
	}
	errs := make(chan error, len(s.copiers))
	for _, copy := range s.copiers {
		go func() { errs <- copy() }()
	}
	fed := make(chan error, 1)
	if s.feed != nil {
		go s.feed(fed)
	}
	return func() error {
		var first error
		select {
		case first = <-fed:
		default:
		}
		for range s.copiers {
			if err := <-errs; first == nil {
				first = err
			}
		}
		return first
	}
}

func (s *streams) closeAll() {
	for _, f := range s.opened {
		f.Close()
	}
	for _, c := range s.ours {
		c.Close()
	}
}
