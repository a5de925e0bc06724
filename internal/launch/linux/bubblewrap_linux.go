package linux

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Bubblewrap confines commands like [Launcher], but lets bwrap make the
// namespaces and the mounts of the plan. srt-init checks them and does the rest.
type Bubblewrap struct {
	// Path is the program of the settings; empty to look for bwrap on PATH.
	Path string
}

// Prepare implements [launch.Launcher]. It only remembers: bwrap takes its
// options once, and is not trusted before the policy is known.
func (b Bubblewrap) Prepare(s launch.Streams) (launch.Sandbox, error) {
	return &bubblewrapSandbox{setting: b.Path, streams: s}, nil
}

// HostIdentity implements [launch.Launcher].
func (Bubblewrap) HostIdentity() bool { return false }

// bubblewrapSandbox implements [launch.Sandbox]. Everything after the start of
// bwrap is the work of process.
type bubblewrapSandbox struct {
	setting string
	streams launch.Streams
	process atomic.Pointer[process]
}

// Build implements [launch.Sandbox].
func (b *bubblewrapSandbox) Build(ctx context.Context, r launch.Request) ([]net.Listener, error) {
	program, err := trustedBubblewrap(b.setting, r.Policy)
	if err != nil {
		return nil, err
	}
	s := specFor(r)
	words, err := bubblewrapArguments(s.Plan)
	if err != nil {
		return nil, err
	}
	p, err := startBubblewrap(program, words, b.streams)
	if err != nil {
		return nil, err
	}
	b.process.Store(p)
	p.via.plan = s.Plan
	defer runtime.KeepAlive(b.streams.Stdio)
	defer p.giveUpWithBubblewrap()()
	listeners, err := p.build(ctx, r, s)
	if err != nil {
		return nil, err
	}
	if err := p.via.identify(p); err != nil {
		for _, ln := range listeners {
			ln.Close()
		}
		return nil, err
	}
	return listeners, nil
}

// giveUpWithBubblewrap ends the wait for srt-init when bwrap ends before it
// stands. The returned function ends this watch: from then on bwrap may end without
// any effect on the sandbox.
func (p *process) giveUpWithBubblewrap() func() {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-p.exited:
		case <-done:
		}
		select {
		case <-done: // also when both happened
		default:
			_ = unix.Shutdown(p.control, unix.SHUT_RDWR)
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// Start implements [launch.Sandbox].
func (b *bubblewrapSandbox) Start() error { return b.process.Load().Start() }

// Dial implements [launch.Sandbox].
func (b *bubblewrapSandbox) Dial(ctx context.Context, port int) (net.Conn, error) {
	return b.process.Load().Dial(ctx, port)
}

// Wait implements [launch.Sandbox].
func (b *bubblewrapSandbox) Wait() (launch.Status, error) { return b.process.Load().Wait() }

// Signal implements [launch.Sandbox].
func (b *bubblewrapSandbox) Signal(s os.Signal) error { return b.process.Load().Signal(s) }

// Converse implements [launch.Sandbox].
func (b *bubblewrapSandbox) Converse(ctx context.Context, f func(context.Context, io.ReadWriter) error) error {
	p := b.process.Load()
	if p == nil {
		return os.ErrProcessDone
	}
	return p.Converse(ctx, f)
}

// Kill implements [launch.Sandbox].
func (b *bubblewrapSandbox) Kill() {
	if p := b.process.Load(); p != nil {
		p.Kill()
	}
}

// Close implements [launch.Sandbox].
func (b *bubblewrapSandbox) Close() {
	if p := b.process.Load(); p != nil {
		p.Close()
		p.via.close(!p.leftBehind())
	}
}

// bubblewrap is the process of bwrap that stays outside of the sandbox, waits
// for srt-init and ends with it.
type bubblewrap struct {
	pid     int
	plan    inside.Plan
	streams []int
	text    *os.File // what bwrap prints: the reason why it failed
	info    *os.File // what bwrap tells about the process that becomes srt-init
	init    int      // descriptor of srt-init's process, -1 before it is known
}

// startBubblewrap starts bwrap with options that only its own user can read.
func startBubblewrap(program string, words []string, s launch.Streams) (*process, error) {
	v := &bubblewrap{init: -1}
	for _, f := range s.Stdio {
		v.streams = append(v.streams, int(f.Fd()))
	}
	var d descriptors
	defer d.close()
	control, theirControl := d.pair(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
	// A file, for the end of a pipe's reader would kill bwrap.
	info := d.one(unix.MemfdCreate("bwrap-info", unix.MFD_CLOEXEC))
	text := d.one(unix.MemfdCreate("bwrap-messages", unix.MFD_CLOEXEC))
	null := d.one(unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0))
	self := d.one(unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0))
	arguments := d.one(memoryFile("bwrap-arguments", strings.Join(words, "\x00")+"\x00"))
	if d.err != nil {
		return nil, bubblewrapError("making the descriptors of bwrap", "", d.err)
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: initEnvironment, Sys: &syscall.SysProcAttr{Setpgid: true}}
	attr.Files = []uintptr{uintptr(null), uintptr(null), uintptr(text), inside.ControlFD: uintptr(theirControl),
		argumentsFD: uintptr(arguments), infoFD: uintptr(info), inside.BubblewrapProgramFD: uintptr(self)}
	pid, err := syscall.ForkExec(program, namespaceWords(s.NewSession), attr)
	if err != nil {
		return nil, bubblewrapError("starting "+program, "", err)
	}
	v.pid, v.text, v.info = pid, d.keep(text), d.keep(info)
	d.forget(control)
	p := newProcess(pid, control, s.NewSession)
	p.via = v
	p.interactive = !s.NewSession && interactive(s.Stdio[0], s.Stdio[1])
	go p.reap()
	return p, nil
}

// identify learns the number of srt-init, which leads the process group inside.
// It must be alive.
func (v *bubblewrap) identify(p *process) error {
	var message struct {
		PID int `json:"child-pid"`
	}
	if err := json.Unmarshal(contents(v.info), &message); err != nil {
		return bubblewrapError("reading what bwrap tells of srt-init", "", err)
	}
	fd, err := unix.PidfdOpen(message.PID, 0)
	if err != nil {
		return bubblewrapError("finding srt-init", "", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader, v.init = message.PID, fd
	return nil
}

// contents reads the start of a memory file.
func contents(f *os.File) []byte {
	text := make([]byte, maxBubblewrapText)
	n, _ := f.ReadAt(text, 0)
	return text[:n]
}

// maxBubblewrapText bounds what is read of bwrap's messages.
const maxBubblewrapText = 4096

// alive reports whether srt-init still has its number.
func (v *bubblewrap) alive() bool {
	return v.init >= 0 && unix.PidfdSendSignal(v.init, 0, nil, 0) == nil
}

// kill ends bwrap, its child as long as it is that, and srt-init. A child of bwrap
// that loses its parent early would wait for it for ever.
func (v *bubblewrap) kill(reaped bool) {
	if !reaped {
		_ = unix.Kill(-v.pid, unix.SIGKILL)
	}
	if v.init >= 0 {
		_ = unix.PidfdSendSignal(v.init, unix.SIGKILL, nil, 0)
	}
}

// awaitEnd returns when bwrap has ended, by whatever hand, and takes its child
// along. Until it is reaped, its number means its process group.
func (v *bubblewrap) awaitEnd() {
	for unix.Waitid(unix.P_PID, v.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = unix.Kill(-v.pid, unix.SIGKILL)
}

// awaitInit waits for the end of srt-init, which somebody may have robbed of its
// parent.
func (v *bubblewrap) awaitInit() {
	if v.init < 0 {
		return
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(v.init), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return
		}
	}
}

// close waits for the end of srt-init, if it can end, and releases the descriptors.
func (v *bubblewrap) close(wait bool) {
	if wait {
		v.awaitInit()
	}
	if v.init >= 0 {
		unix.Close(v.init)
	}
	v.text.Close()
	v.info.Close()
}

// initStatus is the wait status of srt-init. bwrap passes it on as shells do.
func (v *bubblewrap) initStatus(w syscall.WaitStatus) syscall.WaitStatus {
	if w.Exited() && w.ExitStatus() > 128 {
		return syscall.WaitStatus(w.ExitStatus() - 128)
	}
	return w
}

// failure explains why bwrap ended before the sandbox stood.
func (v *bubblewrap) failure(status syscall.WaitStatus, err error) error {
	text := v.message(status)
	if lower := strings.ToLower(text); strings.Contains(lower, "permission") || strings.Contains(lower, "not permitted") {
		err = unix.EPERM // bwrap has words of its own for it
	}
	stage := "mount"
	switch {
	case moved(v.plan), missed(v.plan, text):
		stage = "changed"
	case len(contents(v.info)) == 0, strings.Contains(text, "uid map"), strings.Contains(text, "gid map"):
		stage = "namespaces"
	}
	return startError(stage, text, err)
}

// message is what bwrap printed, or how it ended if it printed nothing.
func (v *bubblewrap) message(status syscall.WaitStatus) string {
	if said := strings.TrimSpace(string(contents(v.text))); said != "" {
		return said
	}
	if status.Signaled() {
		return "bwrap was killed by " + status.Signal().String()
	}
	return "bwrap or srt-init ended early, with status " + strconv.Itoa(status.ExitStatus())
}

// missed reports whether a message says that a path of the plan was not there. It
// may have come back since, as the same object to all appearances.
func missed(plan inside.Plan, text string) bool {
	text, _, ok := strings.Cut(text, ": No such file or directory")
	if !ok {
		text, _, ok = strings.Cut(text, ": Unable to find ") // in the list of the mounts
	}
	return ok && slices.ContainsFunc(plan, func(op inside.Op) bool { return strings.HasSuffix(text, op.Path) && op.Path != "/" })
}

// moved reports whether a path of the plan leads to another object by now:
// reason enough to plan again.
func moved(plan inside.Plan) bool {
	for _, op := range plan {
		var st unix.Stat_t
		if op.Ino != 0 && (unix.Lstat(op.Path, &st) != nil || st.Dev != op.Dev || st.Ino != op.Ino) {
			return true
		}
	}
	return false
}
