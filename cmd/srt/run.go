package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/job"
)

// runCommand runs the command of the options and returns its exit status. An
// error means that it did not run.
func runCommand(o *options, m *messages) (status int, err error) {
	channel, err := openControl(o.controlFD, m)
	if err != nil {
		return 0, err
	}
	if err := o.log.claim(o.controlFD); err != nil {
		return 0, err
	}
	// The sandbox's first process boots while the settings are read.
	prepared := srt.Prepare(os.Stdin, os.Stdout, os.Stderr, o.newSession)
	defer prepared.Close()
	ctx, interrupted := context.WithCancelCause(context.Background())
	relay := job.NewRelay(interrupted)
	defer func() {
		// After a command there is nothing left that a signal could end: giving each
		// signal back would take longer than what is left to do.
		if err != nil {
			relay.Stop()
		}
	}()
	report, err := newReport(o, m)
	if err != nil {
		return 0, err
	}
	sb, asker, err := newSandbox(ctx, o, m, prepared)
	if err != nil {
		return 0, err
	}
	defer sb.Close()
	cmd := newCommand(ctx, sb, o)
	asker.attach(cmd)
	lost := make(chan error, 1)
	channel.follow(sb, func(err error) { lost <- err; endByControl(cmd) })
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	relay.Attach(cmd)
	m.published(cmd.Published())
	err = cmd.Wait()
	end := err
	relay.Finish(func() { exit(statusOf(end, relay, o)) })
	report.write(sb.Violations(), m)
	select {
	case err := <-lost:
		return 0, err
	default:
		return exitStatus(err, relay)
	}
}

// newSandbox makes the sandbox that the settings and the options ask for. The
// asker is nil where nobody is asked.
func newSandbox(ctx context.Context, o *options, m *messages, prepared *srt.Prepared) (*srt.Sandbox, *asker, error) {
	cfg, protected, err := awaitSettings(ctx, o, m)
	if err != nil {
		return nil, nil, err
	}
	log, err := o.log.open(cfg)
	if err != nil {
		return nil, nil, err
	}
	all := []srt.Option{srt.WithLogger(m.logger()), srt.WithWarnings(m.warn), srt.WithProtectedFiles(protected...), srt.WithPrepared(prepared)}
	if log != nil { // it is open until the process ends
		all = append(all, srt.WithAccessLog(sharedFile{log}), srt.WithProtectedFiles(protectedLog(log)...))
	}
	asker := newAsker(o, m)
	if asker != nil {
		all = append(all, srt.WithAsk(srt.CoalesceAsk(asker.ask)))
	}
	sb, err := srt.New(ctx, cfg, all...)
	return sb, asker, err
}

// newCommand turns the positional words into a command with what the options say
// of it.
func newCommand(ctx context.Context, sb *srt.Sandbox, o *options) *srt.Cmd {
	var cmd *srt.Cmd
	switch {
	case o.script != "":
		cmd = sb.Shell(ctx, o.script, o.args...)
	case isCommandLine(o.args):
		cmd = sb.Shell(ctx, o.args[0])
	default:
		cmd = sb.Command(ctx, o.args[0], o.args[1:]...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.NewSession, cmd.NullFD, cmd.Trace = o.newSession, o.controlFD, o.trace
	cmd.AllowDomains, cmd.Publish = o.allowDomains, o.publish
	if o.limits != (config.Limits{}) {
		cmd.Limits = &o.limits
	}
	return cmd
}

// isCommandLine reports whether the only argument is a whole command line: it
// has white space and is not the name of a program.
func isCommandLine(args []string) bool {
	if len(args) != 1 || !strings.ContainsAny(args[0], " \t\n") {
		return false
	}
	if _, err := os.Stat(args[0]); err == nil {
		return false
	}
	_, err := exec.LookPath(args[0])
	return err != nil
}

// statusOf is what is left to say of a run where nothing can be said any more.
func statusOf(err error, relay *job.Relay, o *options) int {
	status, err := exitStatus(err, relay)
	if err != nil {
		return o.failureStatus
	}
	return status
}

// exitStatus is the command's own status.
func exitStatus(err error, relay *job.Relay) (int, error) {
	var exit *srt.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	return relay.Status(exit.Status), nil
}

// awaitSettings is loadSettings that a signal ends: settings may come from a pipe or a
// terminal, and a pipe may never have a writer.
func awaitSettings(ctx context.Context, o *options, m *messages) (*config.Config, []string, error) {
	type result struct {
		cfg       *config.Config
		protected []string
		err       error
	}
	read := make(chan result, 1)
	go func() {
		cfg, protected, err := loadSettings(o, m)
		read <- result{cfg, protected, err}
	}()
	select {
	case r := <-read:
		return r.cfg, r.protected, r.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// settingsPath is the file that a run reads, and the standard one.
func settingsPath(o *options) (path, standard string, err error) {
	home, err := config.Home(os.LookupEnv)
	if err != nil {
		return "", "", err
	}
	standard = config.DefaultPath(home)
	if o.settings != nil {
		return *o.settings, standard, nil
	}
	return standard, standard, nil
}

// loadSettings reads the settings that apply and names the files that decided,
// which no command may change.
func loadSettings(o *options, m *messages) (*config.Config, []string, error) {
	path, standard, err := settingsPath(o)
	if err != nil {
		return nil, nil, err
	}
	cfg, unknown, err := config.Load(path)
	if o.settings == nil && errors.Is(err, config.ErrMissing) {
		m.debugf("no settings file at %s, using the defaults", path)
		return config.Default(), []string{standard}, nil
	}
	for _, k := range unknown {
		m.unknownKey(path, k)
	}
	if err != nil {
		return nil, nil, &settingsError{err: err, named: o.settings != nil}
	}
	m.debugf("using the settings of %q", path)
	if o.strict && len(unknown) > 0 {
		return nil, nil, fmt.Errorf("reading settings from %s: unknown keys, and --strict-settings is given", path)
	}
	m.debugf("settings: %q", path)
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, fmt.Errorf("locating the settings file %s: %w", path, err)
	}
	return cfg, []string{absolute, standard}, nil
}

// settingsError adds what running without the file would have meant.
type settingsError struct {
	err   error
	named bool
}

func (e *settingsError) Error() string { return e.err.Error() + "\n" + e.lost() }

func (e *settingsError) lost() string {
	lost := "the rules of the settings file"
	if e.named {
		lost = "the rules that --settings asked for"
	}
	return "srt does not fall back to its built-in defaults: they would drop " + lost
}

func (e *settingsError) Unwrap() error { return e.err }
