package inside

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// LandlockName is argument zero of srt-init where it has no namespaces.
const LandlockName = "srt-landlock-init"

// isControlSocket tells a start by the host half from a program that happens to
// have the name.
func isControlSocket(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	domain, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && err2 == nil && kind == unix.SOCK_SEQPACKET && domain == unix.AF_UNIX
}

// landlockMain is the whole life of srt-init without namespaces. It never returns.
func landlockMain() {
	i := &initProcess{control: controlFD, descendants: &descendants{}}
	end, err := i.runLandlock()
	if err != nil {
		_ = SendMessage(i.control, MessageFailed, []byte(describeFailure(err)))
		os.Exit(1)
	}
	i.finish(end)
}

func (i *initProcess) runLandlock() (ending, error) {
	if err := i.harden(); err != nil {
		return ending{}, err
	}
	// Whatever the command starts stays below this process, even when its parent ends.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return ending{}, fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	if err := i.receiveSpec(); err != nil {
		return ending{}, err
	}
	// Files on the standard streams need no replacement: the guard judges each use.
	if _, err := inspectStreams(); err != nil {
		return ending{}, err
	}
	if i.spec.Landlock == nil {
		return ending{}, errors.New("receiving the launch spec: it is for another backend")
	}
	if err := SendMessage(i.control, MessageReady, nil); err != nil {
		return ending{}, fmt.Errorf("answering the host: %w", err)
	}
	swallowSignals()
	if kind, _, _, err := ReceiveMessage(i.control); err != nil || kind != MessageGo {
		return ending{}, fmt.Errorf("waiting for the host: %w", errors.Join(err, errors.New("no go")))
	}
	pid, err := i.startLandlocked()
	if err != nil {
		return ending{}, err
	}
	detachStreams()
	return i.supervise(pid)
}

// groupSignals are the signals that a terminal, a shell or srt itself sends to
// the command's process group.
var groupSignals = []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGVTALRM, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR, unix.SIGPIPE}

// swallowSignals keeps srt-init alive when the terminal signals the command's
// process group, which it shares. What the caller ignores stays ignored, for the
// command inherits that.
func swallowSignals() {
	var all []os.Signal
	for _, s := range groupSignals {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), slices.Clip(all)...)
}

// startLandlocked starts the command from a thread that exists for this only:
// a thread under the command's own restrictions would be open to its signals.
func (i *initProcess) startLandlocked() (int, error) {
	type outcome struct {
		pid int
		err error
	}
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		pid, err := i.confineAndStart()
		done <- outcome{pid, err}
	}()
	o := <-done
	return o.pid, o.err
}

func (i *initProcess) confineAndStart() (int, error) {
	dir, err := i.workingDirectory()
	if err != nil {
		return 0, err
	}
	program, attr, err := i.program(dir)
	if err != nil {
		return 0, err
	}
	i.guard = startGuard(i.control, i.spec, nil)
	listener, err := i.confineByLandlock()
	if err != nil {
		return 0, &stageError{stage: "landlock", err: err}
	}
	i.guard.listen(listener)
	return i.spawn(program, attr)
}

// confineByLandlock gives up every privilege of the calling thread and puts
// ruleset and filter on it.
func (i *initProcess) confineByLandlock() (int, error) {
	l, abi := i.spec.Landlock, LandlockABI()
	if abi == 0 {
		return -1, errors.New("creating the Landlock ruleset: this kernel has no Landlock, or a filter around this process hides it")
	}
	if i.spec.Filter.UnixSockets && abi < abiNetwork {
		return -1, errors.New("network.allowAllUnixSockets needs a Landlock that restricts TCP (Linux 6.7): otherwise a connection could not be told from one")
	}
	files := len(l.States) > 0
	rules, err := newRuleset(abi, files, l.LocalBinding)
	if err != nil {
		return -1, err
	}
	paths := newPathRules(l, nil)
	if files {
		if err := errors.Join(rules.readGrants(paths), rules.grantDevices()); err != nil {
			return -1, err
		}
	}
	options := FilterOptions{Landlock: &landlockFilter{
		files: files, reads: files && paths.hasGaps(), localBinding: l.LocalBinding,
		unixSockets: i.spec.Filter.UnixSockets, supervisor: os.Getpid(), starter: unix.Gettid(),
	}}
	prog, err := assemble(filterRules(options))
	if err != nil {
		return -1, err
	}
	if err := dropPlainCapabilities(); err != nil {
		return -1, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("setting no_new_privs: %w", err)
	}
	if err := rules.restrict(); err != nil {
		return -1, err
	}
	return installFilter(prog, true)
}

// dropPlainCapabilities is dropCapabilities for a process that may have none,
// or not the one that empties the bounding set: no_new_privs keeps an exec from
// giving anything back.
func dropPlainCapabilities() error {
	if err := dropCapabilities(0); err == nil {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing the ambient capabilities: %w", err)
	}
	return setCapabilities(0, 0)
}
