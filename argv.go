package srt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Errors of commands that another program is to start.
var (
	// ErrNoHelper says that no binary is known which could start a command for
	// another program.
	ErrNoHelper = errors.New("srt: no program can start the command: call srt.MaybeExecHelper first thing in main, or name an installed srt with srt.WithHelper")
	// ErrWithdrawn says that the command was killed before anybody ran its argv.
	ErrWithdrawn = errors.New("srt: the command was killed before anybody ran its argv")
	// ErrHelperLost says that the process that ran the command ended without a
	// word, by SIGKILL for example. What it ran is killed with it.
	ErrHelperLost = errors.New("srt: the process that ran the command was killed")
)

// Argv returns the words with which another program starts the command in the
// sandbox: an agent that spawns its shells itself, a terminal multiplexer, a
// library of another language. It takes the place of Start.
//
//	cmd := sb.Command(ctx, "bash")
//	argv, err := cmd.Argv()
//	// hand argv to whatever spawns: it is a program and its arguments
//	err = cmd.Wait() // how the command ended
//
// The words are all that must be passed on; neither settings nor secrets are
// among them. Whoever starts them must be a process of the same user that sees
// the same processes and network as this one. They can be started once, while
// this process and the sandbox live. Words that are put behind them become further
// arguments of the command.
//
// The command is a job of the process that starts it: it has that one's standard
// streams, terminal, working directory and environment (except where Dir and Env
// are set), limits and file mode mask. Signals are handed on to it, and its status
// is that of the process, 128 and the signal's number after a signal.
//
// Everything else is as with Start: [Sandbox.Update] and [Sandbox.Close], the
// functions of the options, violations, Signal, Kill and Wait, which waits until
// somebody has run the words and the command has ended. Converse has no terminal.
// When the context ends before that, or this process does, nothing runs any more.
func (c *Cmd) Argv() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return nil, ErrAlreadyStarted
	}
	if c.sandbox == nil {
		return nil, ErrNotSandboxed
	}
	if c.Stdin != nil || c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("srt: the streams are those of the process that runs the argv; leave Stdin, Stdout and Stderr nil")
	}
	helper, err := c.sandbox.runHelper()
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.started = true
	if err := c.sandbox.enter(); err != nil {
		return nil, err
	}
	word, run, err := c.sandbox.expect(c)
	if err != nil {
		c.sandbox.running.Done()
		return nil, err
	}
	c.run = run
	return []string{helper, runArgument, word}, nil
}

// check finds mistakes while there is somebody to tell.
func (c *Cmd) check() error {
	_, err := perCommandList(c.AllowDomains)
	return errors.Join(err, c.Limits.Validate(), checkPublish(c.sandbox.config.Load(), c.Publish))
}

// runHelper is the program that an argv begins with.
func (s *Sandbox) runHelper() (string, error) {
	helper := s.helperPath()
	if helper == "" {
		return "", ErrNoHelper
	}
	helper, err := filepath.Abs(helper)
	if err == nil {
		_, err = os.Stat(helper)
	}
	if err != nil {
		return "", fmt.Errorf("srt: finding the program that starts commands: %w", err)
	}
	return helper, nil
}

// environmentRead are the variables that a sandbox itself reads. A helper is
// given those of this process, so that who starts it has no say in the policy.
var environmentRead = []string{
	"HOME", "CLAUDE_CODE_TMPDIR", "CLAUDE_TMPDIR",
	"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
}
