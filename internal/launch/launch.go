// Package launch is the seam between srt and the operating systems: what every
// launcher is asked for and what it answers. One launcher per system lives in
// a package below.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
)

// ErrUnsupported says that this system has no launcher.
var ErrUnsupported = errors.New("this operating system has no sandbox launcher yet")

// ErrNoTerminal says that this process has no controlling terminal.
var ErrNoTerminal = errors.New("there is no controlling terminal")

// Launcher starts sandboxes of one kind.
type Launcher interface {
	// Prepare creates the sandbox's first process. It needs nothing of the
	// policy, so that the caller can resolve it meanwhile.
	Prepare(Streams) (Sandbox, error)
	// HostIdentity reports whether the command sees the owners of files as the
	// host does, not through a user namespace.
	HostIdentity() bool
}

// Streams are what a sandbox's first process is born with.
type Streams struct {
	// Stdio become the command's standard streams.
	Stdio [3]*os.File
	// NewSession keeps the caller's controlling terminal from the command.
	NewSession bool
}

// Request is one command and everything that confines it.
type Request struct {
	Policy *policy.Policy
	// UnixSockets lets the command use Unix sockets of every kind.
	UnixSockets bool
	// NestedNamespaces lets the command create namespaces of its own.
	NestedNamespaces bool

	// Path is the program, looked up inside along the command's PATH when it
	// has no slash; Args includes argument zero.
	Path string
	Args []string
	Env  []string
	// Dir is where the command starts, Home the second choice.
	Dir, Home string
	// Trace reports refused opens for reading, too; every open then costs more.
	Trace bool
	// LocalBinding lets the command listen on ports of this machine, where it
	// has no network of its own.
	LocalBinding bool
	// Limits bound what the command uses; the time it may run is the caller's to
	// watch.
	Limits config.Limits
	// Ports get listeners on the sandbox's loopback addresses.
	Ports []int
	// Unguarded runs the command without the guard. What needs it must not be asked
	// for.
	Unguarded bool
	// Direct serves programs that know no proxy; nil where there are none.
	Direct Direct
	// Anywhere leads connections to every address to Direct, and name lookups.
	Anywhere bool
	// HostPorts are ports of this machine's loopback that may be reached inside
	// under the same address, through Direct.
	HostPorts []int
	// Published are ports that servers of the command listen on for [Sandbox.Dial].
	Published []int
	// NullFD is a descriptor number that is the null device in the command; 0 for none.
	NullFD int
	// NewRepositoryHooks leaves the git repositories that the command makes as
	// they are.
	NewRepositoryHooks bool
	// Private is the run's own temporary directory, removed even if this
	// process is killed.
	Private string

	// Note receives warnings, Violation refused operations. Both are called from
	// one goroutine and must not block.
	Note      func(string)
	Violation func(Violation)
}

// Direct serves connections that were made without a proxy. Its methods are
// called from several goroutines.
type Direct interface {
	// Names answers name lookups on sockets of the sandbox until they are closed.
	Names(datagrams []*net.UDPConn, streams []net.Listener)
	// Judge reports whether a connection may be tried. It may wait for a person.
	Judge(ctx context.Context, to netip.AddrPort) bool
	// Missed is told of a connection to an address that leads nowhere, of datagrams
	// or of TCP, before it fails. It must not block.
	Missed(to netip.AddrPort, datagrams bool)
	// Serve accepts on a listener whose address is the one that a program meant.
	Serve(net.Listener)
}

// Sandbox is one prepared sandbox. Its methods are called in the order Build,
// Start, Wait, Close; Signal and Kill at any time, Dial from Start on.
type Sandbox interface {
	// Build puts every layer in place and returns the listeners, which accept
	// connections made inside. A *StartError says which layer failed; the
	// command did not and will not run.
	Build(context.Context, Request) ([]net.Listener, error)
	// Start lets the command go.
	Start() error
	// Dial connects to one of the published ports inside, on 127.0.0.1 or ::1. It
	// tries until a server listens there, the context ends or the sandbox does.
	Dial(ctx context.Context, port int) (net.Conn, error)
	// Wait waits for the command's end. The error is a *CommandError when the
	// program could not be started.
	Wait() (Status, error)
	// Signal reaches the command and the processes of its group.
	Signal(os.Signal) error
	// Converse stops the command, takes the controlling terminal that it may have,
	// calls f with it, and gives both back. The error is that of f, or says why f
	// was not called, or why what it did cannot be relied on.
	Converse(ctx context.Context, f func(context.Context, io.ReadWriter) error) error
	// Kill ends every process of the sandbox at once.
	Kill()
	// Close ends what still runs and releases everything.
	Close()
}

// Status is how a command ended.
type Status struct {
	// Code is the exit status, 0 to 255; meaningless when Signal is set.
	Code int
	// Signal is the number of the signal that ended the command, or 0.
	Signal int
}

// ShellCode is the status as shells report it: 128 plus the signal's number.
func (s Status) ShellCode() int {
	if s.Signal != 0 {
		return 128 + s.Signal
	}
	return s.Code
}

// Violation is an operation that the launcher refused.
type Violation struct {
	// Operation is the system call's plain name, Path what it named, Target the
	// protected path that Path leads to; for a limit see [Exceeded].
	Operation, Path, Target string
	// Rule and Cure are those of the policy.
	Rule, Cure string
	// Outcome is what was done about it, where that is more than a refusal.
	Outcome string
	PID     int
	Process string
}

// OperationLimit is the operation of violations that stand for an exceeded limit.
const OperationLimit = "limit"

// Exceeded reports that a command ran into one of its limits, by its settings key.
func Exceeded(key string, value fmt.Stringer) Violation {
	setting := "limits." + key
	return Violation{
		Operation: OperationLimit, Path: key, Target: key,
		Rule: setting + " " + value.String(), Cure: "raise " + setting + " above " + value.String(),
	}
}

// StartError says why a sandbox could not be set up. The command did not run.
type StartError struct {
	// Stage is the layer that failed: "namespaces", "mount", "network",
	// "privileges", "guard", "limits", "publish", "streams", "changed" or "start";
	// "bubblewrap" is bwrap itself.
	Stage string
	// Text is what failed, Cause why as far as this machine tells, Cure what a
	// person can do about it.
	Text, Cause, Cure string
	Err               error `json:"-"`
}

func (e *StartError) Error() string {
	text := "setting up the sandbox (" + e.Stage + "): " + e.Text
	if e.Cause != "" {
		text += " (" + e.Cause + ")"
	}
	if e.Cure != "" {
		text += "; " + e.Cure
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

// CommandError says that the sandbox stood but the program could not be started.
type CommandError struct {
	// Status is 127 for a program that does not exist and 126 for one that
	// cannot be executed, as in shells.
	Status int
	Text   string
}

func (e *CommandError) Error() string { return e.Text }

// Is tells callers who know os/exec that there is no such program.
func (e *CommandError) Is(target error) bool {
	return e.Status == 127 && target == exec.ErrNotFound
}
