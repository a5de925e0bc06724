package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// A socket belongs to the network namespace that it was made in. So srt-init makes
// those for connections to published ports, and this half connects them.

// socketRequests are the questions for sockets that srt-init has not answered.
type socketRequests struct {
	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan []int
}

// maxSocketRequests is what fits into the control socket many times over.
const maxSocketRequests = 64

var errManyRequests = errors.New("too many connections are being made")

// add numbers a question.
func (r *socketRequests) add() (id uint32, answer chan []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxSocketRequests {
		return 0, nil, errManyRequests
	}
	if r.waiting == nil {
		r.waiting = map[uint32]chan []int{}
	}
	r.last++
	answer = make(chan []int, 1)
	r.waiting[r.last] = answer
	return r.last, answer, nil
}

// drop forgets a question, and closes what came too late.
func (r *socketRequests) drop(id uint32, answer chan []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
	select {
	case fds := <-answer:
		closeDescriptors(fds)
	default:
	}
}

// answered delivers an answer of srt-init. What nobody waits for is closed.
func (r *socketRequests) answered(body []byte, fds []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(body) == 4 {
		id := binary.BigEndian.Uint32(body)
		if answer := r.waiting[id]; answer != nil {
			delete(r.waiting, id)
			answer <- fds
			return
		}
	}
	closeDescriptors(fds)
}

func closeDescriptors(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Pauses between attempts to reach a server that does not listen yet.
const (
	firstDialPause = 10 * time.Millisecond
	maxDialPause   = 250 * time.Millisecond
)

// Dial implements [launch.Sandbox].
func (p *process) Dial(ctx context.Context, port int) (net.Conn, error) {
	for pause := firstDialPause; ; pause = min(2*pause, maxDialPause) {
		conn, err := p.dialOnce(ctx, port)
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, errManyRequests) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-p.exited:
			return nil, os.ErrProcessDone
		case <-ctx.Done():
			return nil, err
		}
	}
}

// dialOnce tries 127.0.0.1, then ::1.
func (p *process) dialOnce(ctx context.Context, port int) (net.Conn, error) {
	fds, err := p.askForSockets(ctx)
	if err != nil {
		return nil, err
	}
	defer closeDescriptors(fds)
	refused := error(unix.ECONNREFUSED)
	for _, fd := range fds {
		to, err := loopbackOf(fd, port)
		if err != nil {
			return nil, err
		}
		conn, err := connectSocket(ctx, fd, to)
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EADDRNOTAVAIL) { // without IPv6 on the loopback
			return conn, err
		}
	}
	return nil, refused
}

// askForSockets returns sockets of the sandbox's network, which are the caller's.
func (p *process) askForSockets(ctx context.Context) ([]int, error) {
	id, answer, err := p.sockets.add()
	if err != nil {
		return nil, err
	}
	defer p.sockets.drop(id, answer)
	if err := p.tell(inside.MessageSockets, binary.BigEndian.AppendUint32(nil, id)); err != nil {
		return nil, err
	}
	select {
	case fds := <-answer:
		if len(fds) == 0 {
			return nil, errors.New("srt-init could make no socket")
		}
		return fds, nil
	case <-p.exited:
		return nil, os.ErrProcessDone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tell sends a message to a srt-init that lives.
func (p *process) tell(kind inside.MessageKind, body []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return os.ErrProcessDone
	}
	return inside.SendMessage(p.control, kind, body)
}

// loopbackOf is the address inside that a socket is meant for. Nothing but an
// unconnected TCP socket may be connected.
func loopbackOf(fd, port int) (unix.Sockaddr, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || kind != unix.IPPROTO_TCP {
		return nil, errors.New("srt-init handed out something that is no TCP socket")
	}
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return nil, err
	}
	if family == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}, nil
	}
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, nil
}

// connectSocket connects a socket that does not block. The descriptor stays the
// caller's.
func connectSocket(ctx context.Context, fd int, to unix.Sockaddr) (net.Conn, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return nil, err
	}
	err = unix.Connect(own, to)
	f := os.NewFile(uintptr(own), "connection")
	defer f.Close()
	if err == unix.EINPROGRESS {
		err = awaitConnection(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// awaitConnection waits for the outcome of a connect that is under way.
func awaitConnection(ctx context.Context, f *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var outcome error
	err = raw.Write(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(ready, 0); n == 0 || err == unix.EINTR {
			return false
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if outcome = err; err == nil && code != 0 {
			outcome = unix.Errno(code)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("waiting for a connection: %w", err)
	}
	return outcome
}
