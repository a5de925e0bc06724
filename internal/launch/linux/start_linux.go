package linux

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// HostIdentity implements [launch.Launcher].
func (Launcher) HostIdentity() bool { return false }

// process is a sandbox whose namespaces exist; it implements [launch.Sandbox].
type process struct {
	request    launch.Request
	pid        int
	leader     int // srt-init, which leads the sandbox's process group
	newSession bool
	control    int
	via        *bubblewrap // the process between this one and srt-init, if any

	interactive bool // input and output are the controlling terminal
	terminal    *terminal
	group       *group           // the command's cgroup, if its limits have one
	refused     map[refusal]bool // reported so far
	refusals    map[string]int   // how many of each operation
	watching    bool             // srt-init looks at new repositories
	unchecked   string           // where the command began to make a repository that nobody looked at yet
	// announced is told the local end of each connection that srt-init makes;
	// nil where it makes none.
	announced func(from netip.AddrPort)
	sockets   socketRequests
	watched   *watched      // without the guard
	exited    chan struct{} // closed when srt-init was reaped, or need not be waited for

	// talking holds the one conversation that may be under way.
	talking chan struct{}
	paused  chan bool // srt-init's answers to MessagePause
	stops   chan stop // the last stop of the command that is not answered yet
	endTalk atomic.Pointer[context.CancelCauseFunc]

	mu        sync.Mutex
	questions map[string]context.CancelFunc // of srt-init, by number
	held      bool                          // the command is stopped for a conversation
	gone      bool
	left      bool               // srt-init could not be ended
	started   bool               // the command may run
	killed    bool               // srt-init was asked to end everything
	stopAsked bool               // SIGTSTP was passed on, its effect not yet seen
	continues int                // how often the command was continued
	answering bool               // a stop of the command is being answered
	deferred  bool               // and the command was continued meanwhile
	status    syscall.WaitStatus // of srt-init
}

// prepare creates the namespaces and starts srt-init in them.
func prepare(s launch.Streams) (*process, error) {
	env := append(slices.Clip(initEnvironment), inside.IdentityVariable(os.Geteuid(), os.Getegid()))
	p, err := startInit(s, inside.Name, env, namespaceAttributes(s.NewSession))
	if err != nil {
		return nil, startError("namespaces", "creating the namespaces: "+err.Error(), err)
	}
	return p, nil
}

// newProcess is a process of a sandbox of whatever backend.
func newProcess(pid, control int, newSession bool) *process {
	return &process{
		pid: pid, newSession: newSession, control: control, exited: make(chan struct{}), talking: make(chan struct{}, 1),
		paused: make(chan bool, 8), stops: make(chan stop, 1), questions: map[string]context.CancelFunc{},
	}
}

// startInit re-executes this program as srt-init.
func startInit(s launch.Streams, name string, env []string, sys *syscall.SysProcAttr) (*process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("creating the control socket: %w", err)
	}
	defer unix.Close(fds[1])
	attr := &syscall.ProcAttr{Dir: "/", Env: env, Files: []uintptr{s.Stdio[0].Fd(), s.Stdio[1].Fd(), s.Stdio[2].Fd(), uintptr(fds[1])}, Sys: sys}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{name}, attr)
	runtime.KeepAlive(s.Stdio)
	if err != nil {
		unix.Close(fds[0])
		return nil, err
	}
	p := newProcess(pid, fds[0], s.NewSession)
	p.leader = pid
	p.interactive = !s.NewSession && interactive(s.Stdio[0], s.Stdio[1])
	go p.reap()
	return p, nil
}

// initEnvironment tells the runtime of srt-init how many processors it may keep
// busy, and that it has memory to spare. The command never sees it.
var initEnvironment = []string{"GOMAXPROCS=2", "GOGC=400"}

func namespaceAttributes(newSession bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP |
			// As in vfork(2) the child shares this process's memory until it executes
			// srt-init. Otherwise every page of memory that any thread writes next would be
			// copied, which takes longer than making the namespaces. For that the mappings
			// of user and group must be left to srt-init: package syscall would have the
			// child wait for this thread, which waits for the child.
			unix.CLONE_VM | unix.CLONE_VFORK,
		AmbientCaps: inside.Capabilities,
		// A process group of its own: signals to "my group" stay inside, and the
		// terminal can make the whole sandbox its foreground job.
		Setpgid: !newSession,
		Setsid:  newSession,
	}
}

// reap waits for srt-init, the only child of this package's making.
func (p *process) reap() {
	if p.via != nil {
		p.via.awaitEnd()
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		p.ended(status, false)
		return
	}
}

// Build sends the launch spec and waits until the sandbox stands. The listeners
// come in the order of the ports, IPv4 before IPv6.
func (p *process) Build(ctx context.Context, r launch.Request) ([]net.Listener, error) {
	return p.build(ctx, r, specFor(r))
}

func (p *process) build(ctx context.Context, r launch.Request, s *inside.Spec) ([]net.Listener, error) {
	p.request = r
	if r.Unguarded {
		var err error
		if p.watched, err = watch(r.Policy.Absent); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	fds, err := p.send(ctx, s)
	if err != nil {
		return nil, err
	}
	sockets, err := socketsOf(fds)
	if err != nil {
		return nil, err
	}
	if r.Direct != nil {
		r.Direct.Names(sockets.datagrams, sockets.names)
	}
	return sockets.listeners, nil
}

// send hands the launch spec over and waits until srt-init is ready. It returns
// the descriptors that come back.
func (p *process) send(ctx context.Context, s *inside.Spec) ([]int, error) {
	var err error
	p.watching = s.Repositories
	if s.Limits, err = p.limit(p.request.Limits, s.Landlock == nil); err != nil {
		return nil, err
	}
	f, err := s.File()
	if err != nil {
		return nil, startError("start", err.Error(), err)
	}
	defer f.Close()
	descriptors := []int{int(f.Fd())}
	if p.via != nil {
		descriptors = append(descriptors, p.via.streams...)
	}
	if p.group != nil {
		descriptors = append(descriptors, int(p.group.procs.Fd()))
	}
	if err := inside.SendMessage(p.control, inside.MessageSpec, nil, descriptors...); err != nil {
		return nil, p.lost(ctx, err)
	}
	kind, body, fds, err := inside.ReceiveMessage(p.control)
	if err != nil {
		return nil, p.lost(ctx, err)
	}
	if kind != inside.MessageReady {
		return nil, failure(body)
	}
	return fds, nil
}

// lost explains why the control socket closed before the sandbox stood.
func (p *process) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	<-p.exited
	// It may have said why before a packet to it failed.
	if kind, body, fds, err := inside.ReceiveMessage(p.control); err == nil {
		closeDescriptors(fds)
		if kind == inside.MessageFailed {
			return failure(body)
		}
	}
	if p.via != nil {
		return p.via.failure(p.status, err)
	}
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
	return startError(stage, text, nil)
}

// Start lends the terminal to the sandbox and lets the command go.
func (p *process) Start() error {
	p.mu.Lock()
	p.started = true
	p.mu.Unlock()
	t := newTerminal(p)
	p.mu.Lock()
	p.terminal = t
	p.mu.Unlock()
	if err := inside.SendMessage(p.control, inside.MessageGo, nil); err != nil {
		p.terminal.release(launch.Status{})
		return p.lost(context.Background(), err)
	}
	return nil
}
