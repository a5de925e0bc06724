package srt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
)

// run is one started command.
type run struct {
	box       launch.Sandbox
	temp      *tempDir
	direct    *direct
	published *publishing
	status    launch.Status
	err       error
	done      chan struct{}
}

// A run starts over when the file system changed while its sandbox was being built:
// leastReplans times, and as often as it can within replanning, because git, say,
// writes many times in a row.
const (
	leastReplans = 4
	replanning   = 2 * time.Second
)

// start is what happens when a command is run, from top to bottom.
func (s *Sandbox) start(c *Cmd) (*run, error) {
	cfg := s.config.Load() // one configuration from here on, whatever is updated meanwhile
	allow, err := perCommandList(c.AllowDomains)
	if err != nil {
		return nil, err
	}
	if err := c.Limits.Validate(); err != nil {
		return nil, err
	}
	if err := c.checkStrings(); err != nil {
		return nil, err
	}
	if allow != nil {
		s.noteOwnList(cfg)
	}
	at, err := c.place(s.options.lookup)
	if err != nil {
		return nil, err
	}
	published, err := s.publish(c, cfg)
	if err != nil {
		return nil, err
	}
	temp, err := s.makeTempDir(cfg, at)
	if err != nil {
		published.close()
		return nil, err
	}
	means := means{place: at, temp: temp, published: published, allow: allow}
	launcher, err := newLauncher(cfg)
	began := time.Now()
	for attempt := 0; err == nil; attempt++ {
		var r *run
		r, err = s.build(c, cfg, launcher, means)
		if err == nil {
			return r, nil
		}
		if weaker, note := weakerLauncher(cfg, err); weaker != nil && weaker != launcher {
			s.options.warn(note)
			launcher, err = weaker, nil
		} else if changedMeanwhile(err) && (attempt < leastReplans || time.Since(began) < replanning) && c.ctx.Err() == nil {
			err = nil
		}
	}
	temp.discard()
	published.close()
	return nil, err
}

// means are what a run has before its sandbox is built.
type means struct {
	place
	temp      *tempDir
	published *publishing
	allow     *hostname.Set // the command's own list of hosts
}

// build makes the namespaces and resolves the policy while they come up, puts the
// sandbox together, attaches the network filter and lets the command go.
func (s *Sandbox) build(c *Cmd, cfg *config.Config, launcher launch.Launcher, m means) (*run, error) {
	streams, err := c.openStreams()
	if err != nil {
		return nil, err
	}
	shell := s.shell(launcher, launch.Streams{Stdio: streams.stdio, NewSession: c.NewSession})
	pol, policyErr := s.resolve(c, cfg, launcher, m)
	box, err := shell.wait()
	if err != nil {
		streams.closeAll()
		return nil, err
	}
	who := proxy.Invocation{ID: c.id, Command: c.text(), AllowDomains: m.allow}
	direct := s.direct(cfg, who)
	if direct != nil {
		who = direct.Invocation()
	}
	var listeners []net.Listener
	var request launch.Request
	if err = policyErr; err == nil {
		request = s.request(c, cfg, m, pol, direct)
		listeners, err = box.Build(c.ctx, request)
	}
	if err == nil {
		err = box.Start()
	}
	if err != nil {
		err = explained(err, pol, m.dir, request)
		box.Close()
		direct.close()
		streams.closeAll()
		return nil, err
	}
	// From here on the command runs. Connections that it makes before the filter
	// accepts wait in the sockets.
	r := &run{box: box, temp: m.temp, direct: direct, published: m.published, done: make(chan struct{})}
	s.collect.Do(func() { s.running.Go(collectTempDirs) })
	drain := streams.handedOver()
	s.serve(listeners, cfg, who)
	s.servePublished(m.published, box)
	stop := context.AfterFunc(c.ctx, func() { s.interrupt(c, r) })
	stopClose := context.AfterFunc(s.ctx, box.Kill)
	stopTimer := s.limitWallTime(c, cfg, r)
	go func() {
		defer s.running.Done()
		defer close(r.done)
		defer stop()
		defer stopClose()
		defer stopTimer()
		s.finish(r, drain, listeners)
		r.err = explained(r.err, pol, m.dir, request)
	}()
	return r, nil
}

// resolve turns the configuration and the file system of this moment into rules.
func (s *Sandbox) resolve(c *Cmd, cfg *config.Config, launcher launch.Launcher, m means) (*policy.Policy, error) {
	pol, err := policy.Resolve(c.ctx, policy.Input{
		Config: cfg, Cwd: m.dir, Home: m.home, UID: os.Geteuid(), FS: policy.OSFS(),
		Protected: s.protectedFiles(), Readable: s.readableFiles(), ExtraWrite: m.temp.writable(), Private: m.temp.private(), HostIdentity: launcher.HostIdentity(),
	})
	if err != nil {
		return nil, err
	}
	for _, w := range pol.Warnings {
		s.options.warn(w.String())
	}
	s.explain(c, cfg, m, pol)
	return pol, s.checkUnguarded(c, cfg, pol)
}

// request says what to run and what confines it.
func (s *Sandbox) request(c *Cmd, cfg *config.Config, m means, pol *policy.Policy, direct *direct) launch.Request {
	r := launch.Request{
		Policy: pol, UnixSockets: cfg.Network.AllowAllUnixSockets, NestedNamespaces: cfg.AllowNestedUserNamespaces,
		LocalBinding: cfg.Network.AllowLocalBinding, Published: m.published.inside(), Unguarded: cfg.Unguarded(),
		Path: c.Path, Args: c.Args, Env: environment(c.baseEnvironment(m.place), cfg, m.temp.variable(), s.helperPath()),
		Trace: c.Trace, Dir: m.dir, Home: m.home, Ports: []int{httpPort, socksPort}, Private: m.temp.private(), NullFD: c.NullFD,
		Limits: cfg.Limits.With(c.Limits), NewRepositoryHooks: cfg.Filesystem.AllowNewRepositoryHooks,
		Note: s.options.warn, Violation: func(v launch.Violation) { s.record(c, v) },
	}
	direct.attach(&r, &cfg.Network)
	return r
}

// serve lets the filter accept on sockets that live inside the sandbox and
// belong to this command alone: which command a connection comes from needs no
// secret.
func (s *Sandbox) serve(listeners []net.Listener, cfg *config.Config, who proxy.Invocation) {
	for _, ln := range listeners {
		go func() {
			if err := s.serveOn(ln, cfg, who); err != nil && !errors.Is(err, net.ErrClosed) {
				s.options.logger.Debug("serving the network filter", "error", err)
			}
		}()
	}
}

// finish waits for the command's end and puts everything away.
func (s *Sandbox) finish(r *run, drain func() error, listeners []net.Listener) {
	r.status, r.err = r.box.Wait()
	s.explainEnd(r.status, r.err)
	r.published.close()
	r.box.Close()
	r.direct.close()
	for _, ln := range listeners {
		ln.Close()
	}
	if err := drain(); r.err == nil && r.status == (launch.Status{}) {
		r.err = err
	}
	r.temp.discard()
}

// interrupt ends a command whose context ended.
func (s *Sandbox) interrupt(c *Cmd, r *run) {
	cancel := c.Cancel
	if cancel == nil {
		cancel = func() error { return terminate(r.box) }
	}
	s.end(c, r, cancel)
}

// limitWallTime ends a command that runs longer than its limit.
func (s *Sandbox) limitWallTime(c *Cmd, cfg *config.Config, r *run) (stop func() bool) {
	limit := cfg.Limits.With(c.Limits).WallTime
	if limit == 0 {
		return func() bool { return false }
	}
	return time.AfterFunc(time.Duration(limit), func() {
		select {
		case <-r.done:
			return
		default:
		}
		s.record(c, launch.Exceeded("wallTime", limit))
		s.end(c, r, func() error { return terminate(r.box) })
	}).Stop
}

// end asks a command to end and kills what is left after the grace period.
func (s *Sandbox) end(c *Cmd, r *run, ask func() error) {
	if err := ask(); err != nil {
		s.options.logger.Debug("ending a command", "error", err)
	}
	delay := c.WaitDelay
	if delay == 0 {
		delay = defaultWaitDelay
	}
	select {
	case <-r.done:
	case <-time.After(delay):
		r.box.Kill()
	}
}

// place is where a command runs.
type place struct{ dir, home string }

// place finds the real working directory: rules that say "." mean it, whatever
// links lead there.
func (c *Cmd) place(lookup func(string) (string, bool)) (place, error) {
	dir := c.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return place{}, fmt.Errorf("reading the working directory: %w (change to one that exists)", err)
		}
	}
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return place{}, fmt.Errorf("reading the working directory %s: %w (change to one that exists)", dir, err)
	}
	home, err := config.Home(lookup)
	if err != nil {
		return place{}, err
	}
	return place{dir: real, home: home}, nil
}

func (c *Cmd) baseEnvironment(at place) []string {
	if c.Env != nil {
		return c.Env
	}
	if c.Dir != "" {
		return append(os.Environ(), "PWD="+at.dir)
	}
	return os.Environ()
}

// text is the command as people would write it, for messages.
func (c *Cmd) text() string {
	if len(c.Args) == 3 && c.Args[1] == "-c" {
		return c.Args[2]
	}
	text := ""
	for i, a := range c.Args {
		if i > 0 {
			text += " "
		}
		text += a
	}
	return text
}

func perCommandList(entries []string) (*hostname.Set, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	patterns := make([]hostname.Pattern, 0, len(entries))
	for _, e := range entries {
		p, err := hostname.ParseAllow(e)
		if err != nil {
			return nil, fmt.Errorf("reading the command's own list of hosts: %w", err)
		}
		patterns = append(patterns, p)
	}
	return hostname.NewSet(patterns), nil
}

// noteOwnList says where a command's own list of hosts has no effect.
func (s *Sandbox) noteOwnList(cfg *config.Config) {
	const text = "the command's own list of hosts has no effect"
	switch n := &cfg.Network; {
	case n.StrictAllowlist:
		s.options.warn(text + ": network.strictAllowlist is set")
	case n.HTTPProxyPort != 0:
		s.options.warn(text + " on connections through the proxy of network.httpProxyPort, which does its own filtering")
	}
}

func changedMeanwhile(err error) bool {
	var start *launch.StartError
	return errors.As(err, &start) && start.Stage == "changed"
}

// record stores a refusal of the launcher.
func (s *Sandbox) record(c *Cmd, v launch.Violation) {
	line := "deny " + v.Operation + " " + v.Path
	if v.Operation == launch.OperationLimit {
		line = "deny " + v.Operation + " " + strings.TrimPrefix(v.Rule, "limits.")
	}
	if v.Outcome != "" {
		line += " (" + v.Outcome + ")"
	}
	s.addViolation(Violation{
		Time: time.Now(), Line: line, Op: v.Operation, Target: v.Path,
		Rule: v.Rule, Setting: v.Cure, Command: c.text(), CommandID: c.id, PID: v.PID, Process: v.Process,
	})
}
