package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Launcher confines commands with namespaces; see the package comment.
type Launcher struct{}

// Prepare implements [launch.Launcher].
func (Launcher) Prepare(s launch.Streams) (launch.Sandbox, error) {
	p, err := prepare(s)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// process is a sandbox whose namespaces exist; it implements [launch.Sandbox].
type process struct {
	request    launch.Request
	pid        int
	newSession bool
	control    int

	interactive bool // input and output are the controlling terminal
	terminal    *terminal
	exited      chan struct{} // closed when srt-init was reaped

	mu        sync.Mutex
	gone      bool
	stopAsked bool               // SIGTSTP was passed on, its effect not yet seen
	status    syscall.WaitStatus // of srt-init
}

// prepare creates the namespaces and starts srt-init in them.
func prepare(s launch.Streams) (*process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &launch.StartError{Stage: "namespaces", Text: "creating the control socket: " + err.Error(), Err: err}
	}
	defer unix.Close(fds[1])
	attr := &syscall.ProcAttr{Dir: "/", Env: initEnvironment, Files: []uintptr{s.Stdio[0].Fd(), s.Stdio[1].Fd(), s.Stdio[2].Fd(), uintptr(fds[1])}, Sys: namespaceAttributes(s.NewSession)}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{inside.Name}, attr)
	runtime.KeepAlive(s.Stdio)
	if err != nil {
		unix.Close(fds[0])
		return nil, &launch.StartError{Stage: "namespaces", Text: "creating the namespaces: " + err.Error(), Cure: namespaceCure(err), Err: err}
	}
	p := &process{pid: pid, newSession: s.NewSession, control: fds[0], exited: make(chan struct{})}
	p.interactive = !s.NewSession && interactive(s.Stdio[0], s.Stdio[1])
	go p.reap()
	return p, nil
}

// initEnvironment keeps the runtime of srt-init from looking for the limits of
// its cgroup. The command never sees it.
var initEnvironment = []string{"GOMAXPROCS=2"}

func namespaceAttributes(newSession bool) *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: inside.Capabilities,
		// A process group of its own: signals to "my group" stay inside, and the
		// terminal can make the whole sandbox its foreground job.
		Setpgid: !newSession,
		Setsid:  newSession,
	}
}

// reap waits for srt-init, the only child of this package's making.
func (p *process) reap() {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		p.mu.Lock()
		p.gone, p.status = true, status
		p.mu.Unlock()
		close(p.exited)
		return
	}
}

// Build sends the launch spec and waits until the sandbox stands. The listeners
// come in the order of the ports, IPv4 before IPv6.
func (p *process) Build(ctx context.Context, r launch.Request) ([]net.Listener, error) {
	p.request = r
	s := specFor(r)
	f, err := s.File()
	if err != nil {
		return nil, &launch.StartError{Stage: "start", Text: err.Error(), Err: err}
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	if err := inside.SendMessage(p.control, inside.MessageSpec, nil, int(f.Fd())); err != nil {
		return nil, p.lost(ctx, err)
	}
	kind, body, fds, err := inside.ReceiveMessage(p.control)
	if err != nil {
		return nil, p.lost(ctx, err)
	}
	if kind != inside.MessageReady {
		return nil, failure(body)
	}
	return listenersOf(fds)
}

// lost explains why the control socket closed before the sandbox stood.
func (p *process) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	<-p.exited
	text := "srt-init ended early"
	if p.status.Signaled() {
		text += ", killed by " + p.status.Signal().String()
	}
	return &launch.StartError{Stage: "start", Text: text, Err: err}
}

// failure turns srt-init's report into an error.
func failure(body []byte) error {
	stage, text, _ := strings.Cut(string(body), "\x00")
	if code, ok := strings.CutPrefix(stage, "command "); ok {
		if status, err := strconv.Atoi(code); err == nil {
			return &launch.CommandError{Status: status, Text: text}
		}
	}
	return &launch.StartError{Stage: stage, Text: text, Cure: stageCure(stage, text)}
}

func listenersOf(fds []int) ([]net.Listener, error) {
	var all []net.Listener
	var first error
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "listener")
		ln, err := net.FileListener(f)
		f.Close()
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		all = append(all, ln)
	}
	if first != nil {
		for _, ln := range all {
			ln.Close()
		}
		return nil, &launch.StartError{Stage: "network", Text: "taking the listeners: " + first.Error(), Err: first}
	}
	return all, nil
}

// Start lends the terminal to the sandbox and lets the command go.
func (p *process) Start() error {
	p.terminal = newTerminal(p)
	if err := inside.SendMessage(p.control, inside.MessageGo, nil); err != nil {
		p.terminal.release(launch.Status{})
		return p.lost(context.Background(), err)
	}
	return nil
}

// Wait reads what srt-init reports until the command's end. It may be called once.
func (p *process) Wait() (status launch.Status, err error) {
	defer func() { p.terminal.release(status) }()
	for {
		kind, body, _, err := inside.ReceiveMessage(p.control)
		if err != nil {
			<-p.exited
			return p.abnormalEnd()
		}
		switch kind {
		case inside.MessageExit:
			<-p.exited
			return statusOf(syscall.WaitStatus(uint32(body[0]) | uint32(body[1])<<8)), nil
		case inside.MessageFailed:
			<-p.exited
			return launch.Status{}, failure(body)
		default:
			p.event(kind, body)
		}
	}
}

func statusOf(w syscall.WaitStatus) launch.Status {
	if w.Signaled() {
		return launch.Status{Signal: int(w.Signal())}
	}
	return launch.Status{Code: w.ExitStatus()}
}

// abnormalEnd is the end of a sandbox whose init did not report a status: it
// was killed, by [process.Kill] or from outside.
func (p *process) abnormalEnd() (launch.Status, error) {
	if p.status.Signaled() {
		return statusOf(p.status), nil
	}
	return launch.Status{}, &launch.StartError{Stage: "start", Text: "srt-init ended without reporting the command's status"}
}

func (p *process) event(kind inside.MessageKind, body []byte) {
	switch kind {
	case inside.MessageNote:
		p.request.Note(string(body))
	case inside.MessageStopped:
		p.stopped(syscall.Signal(body[0]), body[1] == 1)
	case inside.MessageViolation:
		if v, ok := parseViolation(string(body)); ok {
			p.request.Violation(v)
		}
	}
}

func parseViolation(body string) (launch.Violation, bool) {
	f := strings.Split(body, "\x00")
	if len(f) != 7 {
		return launch.Violation{}, false
	}
	pid, err := strconv.Atoi(f[5])
	return launch.Violation{Operation: f[0], Path: f[1], Target: f[2], Rule: f[3], Cure: f[4], PID: pid, Process: f[6]}, err == nil
}

// stopped answers a stop of the command.
func (p *process) stopped(s syscall.Signal, ownGroup bool) {
	p.mu.Lock()
	asked := p.stopAsked
	p.stopAsked = false
	p.mu.Unlock()
	p.terminal.stopped(s, asked, ownGroup)
}

// Signal sends a signal to the command and the processes in its group, as a
// terminal would.
func (p *process) Signal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("sending signal %v: not a signal of this system", s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return os.ErrProcessDone
	}
	switch number {
	case unix.SIGTSTP:
		p.stopAsked = true
		if p.newSession {
			number = unix.SIGSTOP // the kernel ignores SIGTSTP in a session without a shell
		}
	case unix.SIGCONT:
		p.stopAsked = false
	}
	// A command that left this group for one of its own, as a shell does on a
	// terminal, is known to srt-init alone.
	_ = inside.SendMessage(p.control, inside.MessageSignal, []byte{byte(number)})
	if number == unix.SIGSTOP {
		return nil // from out here it would stop srt-init as well
	}
	// srt-init leads the group and is not reaped yet, so the number is still its own.
	return unix.Kill(-p.pid, number)
}

// Kill ends the sandbox and every process in it at once.
func (p *process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
}

// Close ends the sandbox if it still runs and releases the control socket.
func (p *process) Close() {
	p.Kill()
	<-p.exited
	unix.Close(p.control)
}

func namespaceCure(err error) string {
	switch {
	case os.Getenv("SANDBOX_RUNTIME") == "1" && errors.Is(err, unix.EPERM):
		return "this process already runs inside a sandbox, which does not allow another one inside (allowNestedUserNamespaces in the outer settings would)"
	case errors.Is(err, unix.ENOSPC):
		return "raise the limit with: sysctl user.max_user_namespaces=15000"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Sprintf("user namespaces are not available to this user: %s", userNamespaceHint())
	}
	return ""
}

// userNamespaceHint reads why the kernel refuses user namespaces, as far as it says.
func userNamespaceHint() string {
	for _, k := range []struct{ file, bad, cure string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "allow them with an AppArmor profile for this binary, or sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"},
	} {
		if v, err := os.ReadFile(k.file); err == nil && strings.TrimSpace(string(v)) == k.bad {
			return k.cure
		}
	}
	if os.Getuid() == 0 {
		return "as root this needs CAP_SETFCAP in the bounding set; run as an ordinary user, or grant it"
	}
	return "in a container, allow clone and unshare of user namespaces in its seccomp and AppArmor profiles"
}

func stageCure(stage, text string) string {
	if (stage == "mount" || stage == "network") && (strings.Contains(text, "permission denied") || strings.Contains(text, "operation not permitted")) {
		return userNamespaceHint()
	}
	return ""
}
