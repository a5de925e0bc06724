package inside

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Name is argument zero of the re-executed binary. A user may see it in a
// process list of the host.
const Name = "srt-init"

// controlFD is the descriptor that the host half passes to srt-init.
const controlFD = 3

// init takes the process over if it was started to be srt-init, before any other
// part of the program runs: not one line of an embedding program's own is
// executed inside the new namespaces, and none of its start-up time is paid.
// In every other process this does nothing.
func init() {
	switch {
	case startedByBubblewrap() && os.Getpid() == 1:
		main()
	case len(os.Args) != 1:
	case os.Args[0] == Name && os.Getpid() == 1:
		main()
	case os.Args[0] == LandlockName && isControlSocket(controlFD):
		landlockMain()
	}
}

// main is the whole life of srt-init. It never returns.
func main() {
	runtime.LockOSThread() // the command is started from this very thread
	i := &initProcess{control: controlFD, bubblewrap: startedByBubblewrap()}
	end, err := i.run()
	if err != nil {
		// A packet that cannot be sent has nobody left to read it.
		_ = SendMessage(i.control, MessageFailed, []byte(describeFailure(err)))
		os.Exit(1)
	}
	i.finish(end)
}

// initProcess is process 1 of a sandbox: it builds the sandbox from inside,
// starts the command and answers for it until it ends.
type initProcess struct {
	control int
	spec    *Spec
	direct  *direct
	pauses  pauses
	// descendants are killed one by one where there is no PID namespace.
	descendants *descendants
	guard       *guard // nil where nothing is handed over
	group       int    // the open cgroup.procs of the command's cgroup, 0 if it has none
	// bubblewrap says that bwrap made the namespaces and most of the mounts.
	bubblewrap bool
	// orphaned is set before everything is ended from another goroutine.
	orphaned  atomic.Bool
	inspected sync.Once
}

func (i *initProcess) run() (ending, error) {
	if err := mapIdentity(); err != nil {
		return ending{}, &stageError{stage: "namespaces", err: err}
	}
	if err := i.harden(); err != nil {
		return ending{}, err
	}
	if err := i.receiveSpec(); err != nil {
		return ending{}, err
	}
	streams, err := inspectStreams()
	if err != nil {
		return ending{}, err
	}
	if err := i.build(); err != nil {
		return ending{}, err
	}
	if err := streams.confine(); err != nil {
		return ending{}, err
	}
	// The host has work of its own at this moment. What goes wrong is said when it
	// has done that.
	start, failed := i.prepareStart()
	if err := i.awaitGo(); err != nil {
		return ending{}, err
	}
	if failed != nil {
		return ending{}, failed
	}
	pid, err := start()
	if err != nil {
		return ending{}, err
	}
	detachStreams()
	defer streams.restore()
	return i.supervise(pid)
}

// harden makes this process unreachable for the command before there is one.
func (i *initProcess) harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making srt-init untraceable: %w", err)
	}
	if err := closeInherited(controlFD + 1); err != nil {
		return err
	}
	unix.CloseOnExec(i.control)
	if i.bubblewrap {
		return leadGroup()
	}
	return nil
}

// closeInherited keeps every descriptor that the caller happened to have open
// from reaching the command: an open directory or socket is a way around every
// rule.
func closeInherited(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// CLOSE_RANGE_CLOEXEC is Linux 5.11.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing inherited descriptors: %w", err)
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscanf(e.Name(), "%d", &fd); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (i *initProcess) receiveSpec() error {
	kind, _, fds, err := ReceiveMessage(i.control)
	if err != nil {
		return fmt.Errorf("receiving the launch spec: %w", err)
	}
	if i.bubblewrap {
		if fds, err = adoptStreams(fds); err != nil {
			return err
		}
	}
	if kind != MessageSpec || len(fds) < 1 || len(fds) > 2 {
		return errors.New("receiving the launch spec: unexpected message")
	}
	defer unix.Close(fds[0])
	if len(fds) == 2 {
		i.group = fds[1]
	}
	i.spec, err = readSpec(fds[0])
	return err
}

// build turns the new namespaces into the planned sandbox and hands the
// listening sockets out.
func (i *initProcess) build() error {
	// Mounts and network have nothing to do with each other. The second takes a third
	// of the time of the first, on another processor.
	opened := make(chan network, 1)
	go func() {
		listeners, err := i.openNetwork()
		opened <- network{listeners, err}
	}()
	x := newExecutor(i.spec.Plan)
	makeTree := x.run
	if i.bubblewrap {
		makeTree = x.complete
	}
	if err := makeTree(&deviceNodes{}); err != nil {
		return &stageError{stage: "mount", err: err}
	}
	if !i.spec.Filter.NestedNamespaces {
		if err := forbidUserNamespaces(); err != nil {
			return &stageError{stage: "mount", err: err}
		}
	}
	if err := lockProc(x.attrs); err != nil {
		return &stageError{stage: "mount", err: err}
	}
	startConcealer(i.control, i.spec.Concealed, x.hiddenPaths(), x.blank)
	n := <-opened
	if n.err != nil {
		return &stageError{stage: "network", err: n.err}
	}
	if err := SendMessage(i.control, MessageReady, nil, n.listeners...); err != nil {
		return fmt.Errorf("handing out the listeners: %w", err)
	}
	for _, fd := range n.listeners {
		unix.Close(fd)
	}
	return nil
}

// network is what the host half serves inside, or why there is none.
type network struct {
	listeners []int
	err       error
}

func (i *initProcess) openNetwork() ([]int, error) {
	if err := bringLoopbackUp(); err != nil {
		return nil, err
	}
	var all []int
	if i.spec.Filter.Direct {
		if err := makeEverythingLocal(); err != nil {
			return nil, err
		}
		fds, err := openNameSockets()
		if err != nil {
			return nil, err
		}
		all = fds
	}
	for _, port := range i.spec.Ports {
		fds, err := listenLoopback(port)
		if err != nil {
			return nil, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// awaitGo waits for the host half, and uses the time to get ready for the
// signals that reach the command's process group.
func (i *initProcess) awaitGo() error {
	if err := ignoreSignals(); err != nil {
		return err
	}
	kind, _, _, err := ReceiveMessage(i.control)
	if err != nil {
		return fmt.Errorf("waiting for the host: %w", err)
	}
	if kind != MessageGo {
		return errors.New("waiting for the host: unexpected message")
	}
	return nil
}

// supervise reaps every process of the sandbox until the command itself ends.
// A second goroutine watches the control socket: when the host half is gone,
// whatever way, everything inside ends too.
func (i *initProcess) supervise(pid int) (ending, error) {
	go i.watchHost(pid)
	for {
		got, status, used, err := i.pauses.reap()
		switch {
		case err == unix.EINTR:
			continue
		case err != nil && i.orphaned.Load():
			select {} // the one who ends everything has waited for the command, and ends this process
		case err != nil:
			return ending{}, fmt.Errorf("waiting for the command: %w", err)
		case got != pid:
			continue
		case status.Stopped() && i.pauses.caused(status.StopSignal()):
		case status.Stopped():
			_ = SendMessage(i.control, MessageStopped, []byte{byte(status.StopSignal()), byte(min(ownGroup(pid), 1))})
		default:
			return ending{status, time.Duration(used.Utime.Nano() + used.Stime.Nano())}, nil
		}
	}
}

// watchHost passes signals on, and ends the sandbox when the host half closes
// its end, which the kernel does even after SIGKILL.
func (i *initProcess) watchHost(pid int) {
	for {
		kind, body, _, err := ReceiveMessage(i.control)
		switch {
		case err != nil || kind == MessageKill:
			i.endOrphaned()
		case kind == MessagePause:
			i.pauses.set(len(body) > 0, i.control)
		case kind == MessageVerdict && i.direct != nil:
			i.direct.answered(body)
		case kind == MessageSockets && len(i.spec.Published) > 0:
			handOutSockets(i.control, body)
		case kind == MessageSignal && len(body) == 1:
			passOn(pid, unix.Signal(body[0]))
		}
	}
}

// passOn reaches a command that left the group which srt-init leads; the host half
// sends the signal to that one itself, except SIGSTOP. From in here the kernel
// does not apply that to process 1.
func passOn(pid int, s unix.Signal) {
	if s == unix.SIGSTOP {
		_ = unix.Kill(0, s)
	}
	if group := ownGroup(pid); group > 0 {
		_ = unix.Kill(-group, s)
	}
}

// ownGroup is the group of a command that left that of srt-init, otherwise 0.
func ownGroup(pid int) int {
	if group, err := unix.Getpgid(pid); err == nil && group > 0 && group != unix.Getpgrp() {
		return group
	}
	return 0
}

// stageError names the part of the set-up that failed; the host half adds what
// can be done about it.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// describeFailure renders an error for the control socket: a stage word, a
// flag for "try again", and the text.
func describeFailure(err error) string {
	stage := "start"
	var se *stageError
	if errors.As(err, &se) {
		stage = se.stage
	}
	var changed *changedError
	if errors.As(err, &changed) {
		stage = "changed"
	}
	var command *commandError
	if errors.As(err, &command) {
		stage = fmt.Sprintf("command %d", command.status)
	}
	return stage + "\x00" + err.Error()
}
