package srt

import (
	"errors"
	"fmt"

	"github.com/srt-sandbox/srt/internal/launch"
)

// Errors that do not depend on the command.
var (
	// ErrClosed is returned by a sandbox after Close.
	ErrClosed = errors.New("srt: the sandbox is closed")
	// ErrAlreadyStarted is returned by the second start of one command.
	ErrAlreadyStarted = errors.New("srt: the command was already started")
	// ErrNotStarted is returned by methods that need a started command.
	ErrNotStarted = errors.New("srt: the command was not started")
	// ErrNotSandboxed is returned by a Cmd that [Sandbox.Command] or [Sandbox.Shell]
	// did not make.
	ErrNotSandboxed = errors.New("srt: the command belongs to no sandbox; make it with Sandbox.Command or Sandbox.Shell")
	// ErrUnsupportedPlatform says that this system has no launcher.
	ErrUnsupportedPlatform = launch.ErrUnsupported
)

// StartError says why a sandbox could not be set up. The command did not run.
type StartError = launch.StartError

// CommandError says that the program could not be started in a sandbox that
// was complete: it does not exist inside or is not executable.
type CommandError = launch.CommandError

// Status is how a command ended.
type Status = launch.Status

// ExitError says that a command ran and did not end with status 0.
type ExitError struct {
	Status
	// Violations are the operations refused to this command, oldest first.
	Violations []Violation
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("command ended by signal %d", e.Signal)
	}
	return fmt.Sprintf("command ended with status %d", e.Code)
}

// UnsupportedError names a setting that is valid but cannot be enforced here.
// Nothing runs while it is set: ignoring it would be weaker than it says.
type UnsupportedError struct {
	Setting, Reason string
}

func (e *UnsupportedError) Error() string {
	return e.Setting + " cannot be enforced: " + e.Reason
}
