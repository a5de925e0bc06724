package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// pauseWait is how long srt-init may take to stop everything; it gives up earlier.
const pauseWait = 3 * time.Second

// lastWord is how long what is written after the end of a conversation may take.
const lastWord = 100 * time.Millisecond

var (
	errNotPaused  = errors.New("the command could not be stopped for the question")
	errWentOn     = errors.New("the command went on while the question was on the terminal")
	errSignal     = fmt.Errorf("a signal for the command ended the question: %w", context.Canceled)
	errBackground = errors.New("this job is in the background, where nobody can bring it to the foreground")
)

// Converse implements [launch.Sandbox]. One conversation comes after the other.
func (p *process) Converse(ctx context.Context, f func(context.Context, io.ReadWriter) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.exited:
			cancel(os.ErrProcessDone)
		case <-ctx.Done():
		}
	}()
	select {
	case p.talking <- struct{}{}:
		defer func() { <-p.talking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	terminal := p.terminal
	p.mu.Unlock()
	if terminal == nil {
		return os.ErrProcessDone // it does not run yet
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return launch.ErrNoTerminal
	}
	defer tty.Close()
	if err := p.pause(ctx); err != nil {
		return err
	}
	defer p.resume()
	p.endTalk.Store(&cancel)
	defer p.endTalk.Store(nil)
	stop := p.watchPause(ctx, cancel)
	defer stop()
	forUs, err := terminal.converse(ctx, tty, f)
	if forUs != 0 {
		// The signal ends other questions, too, not the one that is over.
		p.endTalk.Store(nil)
		defer func() { _ = unix.Kill(0, forUs) }()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // whatever was answered
	}
	return err
}

// pause stops every process of the sandbox.
func (p *process) pause(ctx context.Context) error {
	for len(p.paused) > 0 {
		<-p.paused // of an earlier pause
	}
	p.mu.Lock()
	err := error(os.ErrProcessDone)
	if !p.gone {
		p.held = true
		err = inside.SendMessage(p.control, inside.MessagePause, []byte{1})
	}
	p.mu.Unlock()
	if err == nil {
		limit := time.NewTimer(pauseWait)
		defer limit.Stop()
		select {
		case ok := <-p.paused:
			if ok {
				return nil
			}
			err = errNotPaused
		case <-limit.C:
			err = errNotPaused
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	p.resume()
	return err
}

// resume lets the processes go on.
func (p *process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	if !p.gone {
		_ = inside.SendMessage(p.control, inside.MessagePause, nil)
	}
}

func (p *process) notePause(complete bool) {
	select {
	case p.paused <- complete:
	default: // nobody waits for it any more
	}
}

// watchPause ends a conversation that the command did not stay out of: it may
// have written something else over the question.
func (p *process) watchPause(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-p.paused: // only bad news comes now
			cancel(errWentOn)
		case <-done:
		case <-ctx.Done():
		}
	}()
	return func() { close(done) }
}

// converse takes the terminal for f, in a state in which lines can be written
// and read, and puts it back into the one that it was in. forUs is the signal of
// a key that concerns the caller's process group.
func (t *terminal) converse(ctx context.Context, tty *os.File, f func(context.Context, io.ReadWriter) error) (forUs unix.Signal, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	raw, err := tty.SyscallConn()
	if err != nil {
		return 0, err
	}
	var back func(unix.Signal) unix.Signal
	if e := raw.Control(func(fd uintptr) { back, err = t.borrow(int(fd)) }); e != nil {
		err = e
	}
	if err != nil {
		return 0, err
	}
	lines := &lineReader{File: tty}
	defer func() { _ = raw.Control(func(uintptr) { forUs = back(lines.signal) }) }()
	stop := context.AfterFunc(ctx, func() {
		_ = tty.SetReadDeadline(time.Unix(1, 0))
		_ = tty.SetWriteDeadline(time.Now().Add(lastWord))
	})
	defer stop()
	return 0, f(ctx, lines)
}

// lineReader notices the keys that concern the command, too.
type lineReader struct {
	*os.File
	signal unix.Signal
}

func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.File.Read(p)
	switch {
	case bytes.IndexByte(p[:n], keyInterrupt) >= 0:
		l.signal = unix.SIGINT
	case bytes.IndexByte(p[:n], keyQuit) >= 0:
		l.signal = unix.SIGQUIT
	}
	return n, err
}

// borrow makes the caller's process group the foreground one. In the background
// of a shell the caller stops first, as any job does that reads the terminal,
// until the shell brings it to the foreground.
// back gives the terminal back and sends the signal of a key to the job that has
// it, as the terminal would have done, or returns it if that is the caller's.
func (t *terminal) borrow(fd int) (back func(unix.Signal) unix.Signal, err error) {
	ours := unix.Getpgrp()
	owner, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == nil && owner != ours && !t.isOurJob(owner) {
		stopCaller(unix.SIGTTIN, true, never)
		owner, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err == nil && owner != ours && !t.isOurJob(owner) {
			return nil, errBackground
		}
	}
	if err == nil && owner != ours {
		err = setForeground(fd, ours)
	}
	if err != nil {
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		question := lineMode(*before)
		err = unix.IoctlSetTermios(fd, unix.TCSETS, &question)
	}
	if err == nil {
		// What was typed before the question is no answer to it.
		err = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
		// The command may have suspended all output.
		_ = unix.IoctlSetInt(fd, unix.TCXONC, tcoon)
	}
	back = func(key unix.Signal) unix.Signal {
		if before != nil {
			// A shell may have taken the terminal meanwhile, and would see it changed
			// from the background.
			withBlocked(unix.SIGTTOU, func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) })
		}
		if now, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); owner != ours && err == nil && now == ours {
			_ = setForeground(fd, owner)
		}
		if owner == ours {
			return key
		}
		if before != nil && before.Lflag&unix.ICANON == 0 {
			_ = unix.Kill(-owner, unix.SIGWINCH) // programs that own the screen draw it again
		}
		if key != 0 {
			_ = unix.Kill(-owner, key)
		}
		return 0
	}
	if err != nil {
		back(0)
		return nil, fmt.Errorf("setting the terminal up: %w", err)
	}
	return back, nil
}

// setForeground works from the background, too: the kernel answers that with
// SIGTTOU unless the thread blocks it.
func setForeground(fd, group int) (err error) {
	withBlocked(unix.SIGTTOU, func() { err = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) })
	return err
}

// Keys that end a line as they are: in a question they mean no, and go on to the
// command.
const (
	keyInterrupt = 0x03 // Ctrl-C
	keyQuit      = 0x1c // Ctrl-\
	keyEnd       = 0x04 // Ctrl-D
)

const tcoon = 1 // TCOON of <termios.h>

// lineMode makes the terminal edit and show lines, whatever the command made of
// it. Keys send no signals: the reader sees them.
func lineMode(t unix.Termios) unix.Termios {
	t.Iflag |= unix.ICRNL | unix.IXON
	t.Iflag &^= unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.PARMRK | unix.IXOFF
	t.Oflag |= unix.OPOST | unix.ONLCR
	t.Lflag |= unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHOCTL | unix.ECHOKE | unix.IEXTEN
	t.Lflag &^= unix.ISIG | unix.ECHONL | unix.NOFLSH | unix.TOSTOP
	t.Cc[unix.VEOL], t.Cc[unix.VEOL2], t.Cc[unix.VEOF], t.Cc[unix.VLNEXT] = keyInterrupt, keyQuit, keyEnd, 0
	return t
}

// isOurJob reports whether a process group is one of the sandbox's: a member of it
// descends from srt-init.
func (t *terminal) isOurJob(group int) bool {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return false
	}
	parents := map[int]int{}
	var members []int
	for _, name := range names {
		pid, parent, itsGroup, ok := readStat(name)
		if !ok {
			continue
		}
		if parents[pid] = parent; itsGroup == group {
			members = append(members, pid)
		}
	}
	for _, pid := range members {
		for hops := 0; pid > 1 && hops < len(parents)+1; hops++ {
			if pid == t.job {
				return true
			}
			pid = parents[pid]
		}
	}
	return false
}

// readStat reads number, parent and process group from /proc/PID/stat, see
// proc_pid_stat(5).
func readStat(name string) (pid, parent, group int, ok bool) {
	stat, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, 0, false
	}
	// The program's name in parentheses may hold anything; the last one ends it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	first, _, _ := bytes.Cut(stat, []byte{' '})
	if len(fields) < 3 {
		return 0, 0, 0, false
	}
	pid, err1 := strconv.Atoi(string(first))
	parent, err2 := strconv.Atoi(string(fields[1]))
	group, err3 := strconv.Atoi(string(fields[2]))
	return pid, parent, group, err1 == nil && err2 == nil && err3 == nil
}
