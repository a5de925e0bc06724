package linux

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Wait reads what srt-init reports until the command's end. It may be called once.
func (p *process) Wait() (status launch.Status, err error) {
	defer func() {
		p.reportUnchecked()
		p.terminal.release(status)
	}()
	defer p.takeNamesAway()
	defer p.answerStops()()
	for {
		kind, body, fds, err := inside.ReceiveMessage(p.control)
		if err != nil {
			<-p.exited
			return p.abnormalEnd()
		}
		switch kind {
		case inside.MessageExit:
			p.awaitEnd(len(body) == exitSize && body[exitSize-1] == 1)
			return p.end(body)
		case inside.MessageFailed:
			p.awaitExit()
			return launch.Status{}, failure(body)
		default:
			p.event(kind, body, fds)
		}
	}
}

// exitSize is the size of what MessageExit carries.
const exitSize = 2 + 8 + 1

// end reads the message about the command's end.
func (p *process) end(body []byte) (launch.Status, error) {
	if len(body) != exitSize {
		return p.abnormalEnd()
	}
	status := statusOf(syscall.WaitStatus(binary.LittleEndian.Uint16(body)))
	p.reportLimits(status, time.Duration(binary.LittleEndian.Uint64(body[2:exitSize-1]))*time.Microsecond)
	return status, nil
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
	// How srt-init ended says nothing about the command's limits; its cgroup does.
	p.reportLimits(launch.Status{}, 0)
	status := p.status
	if p.via != nil {
		status = p.via.initStatus(status)
	}
	if status.Signaled() {
		return statusOf(status), nil
	}
	if p.killed {
		return launch.Status{Signal: int(unix.SIGKILL)}, nil
	}
	const text = "srt-init ended without reporting the command's status, as it does where no more processes may be made (ulimit -u)"
	return launch.Status{}, &launch.StartError{Stage: "start", Text: text}
}

func (p *process) event(kind inside.MessageKind, body []byte, fds []int) {
	switch kind {
	case inside.MessageListener:
		p.serveDirect(fds)
		return
	case inside.MessageSockets:
		p.sockets.answered(body, fds)
		return
	}
	closeDescriptors(fds) // no other message has any
	switch kind {
	case inside.MessageAsk:
		p.judge(body)
	case inside.MessageUnask:
		p.unask(body)
	case inside.MessageMissed:
		p.missed(body)
	case inside.MessageNote:
		p.request.Note(string(body))
	case inside.MessageStopped:
		if len(body) == 2 {
			p.stopped(syscall.Signal(body[0]), body[1] == 1)
		}
	case inside.MessagePaused:
		if len(body) == 1 {
			p.notePause(body[0] == 1)
		}
	case inside.MessageConnection:
		if len(body) > 2 && p.announced != nil {
			address, _ := netip.AddrFromSlice(body[2:])
			p.announced(netip.AddrPortFrom(address, binary.BigEndian.Uint16(body)))
		}
	case inside.MessageRefused:
		p.explain(string(body))
	case inside.MessageRepository:
		p.unchecked = string(body)
	case inside.MessageChecked:
		p.unchecked = ""
	case inside.MessageBlocked:
		p.reportBlocked(string(body))
	case inside.MessageViolation:
		if v, ok := parseViolation(string(body)); ok && !p.instead(v) && p.firstRefusal(v.Operation, v.Path) {
			if v.Rule == "" {
				v.Rule, v.Cure = outsideRoots(v.Operation, v.Path, p.request.Home)
			}
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

// stop is a stop of the command, see [terminal.stopped].
type stop struct {
	signal          syscall.Signal
	asked, ownGroup bool
	continues       int // of the command before it
}

// stopped hands a stop of the command on. A conversation that has the terminal
// must not keep srt-init's next words waiting, so the answer comes from elsewhere.
func (p *process) stopped(s syscall.Signal, ownGroup bool) {
	p.mu.Lock()
	asked, continues := p.stopAsked, p.continues
	p.stopAsked = false
	p.mu.Unlock()
	select {
	case <-p.stops: // it went on since
	default:
	}
	p.stops <- stop{s, asked, ownGroup, continues}
}

// continuedSince reports whether the command went on after a stop.
func (p *process) continuedSince(s stop) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.continues != s.continues
}

// answerStops answers the command's stops one after the other until end is called.
func (p *process) answerStops() (end func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for s := range p.stops {
			select {
			case <-p.exited:
			default:
				p.mu.Lock()
				p.answering = true
				p.mu.Unlock()
				p.terminal.stopped(s.signal, s.asked, s.ownGroup, func() bool { return p.continuedSince(s) })
				p.answered(false)
			}
		}
	}()
	return func() {
		close(p.stops)
		<-over
	}
}

// answered ends the answer to a stop, with which the command goes on, or does so if
// it was continued meanwhile.
func (p *process) answered(goOn bool) {
	p.mu.Lock()
	goOn = goOn || p.deferred
	p.answering, p.deferred = false, false
	p.mu.Unlock()
	if goOn {
		_ = p.Signal(unix.SIGCONT)
	}
}
