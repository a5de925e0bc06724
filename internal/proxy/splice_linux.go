package proxy

import (
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/tcp"
)

// spliceChunk is how many bytes one splice(2) may move, and the size that pipes
// are asked to have.
const spliceChunk = 1 << 20

// copyConn copies from one connection to another until the first one ends, and
// returns how many bytes arrived. Between two TCP connections the bytes stay in
// the kernel. Other than with io.Copy a connection that is silent holds no pipe,
// so an idle tunnel costs the descriptors of its two ends alone.
func (l *pipePool) copyConn(to, from net.Conn) (int64, error) {
	rawDst, ok1 := rawTCP(to)
	rawSrc, ok2 := rawTCP(from)
	if !ok1 || !ok2 {
		return io.Copy(to, from)
	}
	var total int64
	for few := true; ; {
		if few {
			n, moved, err := l.copyFew(to, rawSrc)
			total += moved
			if n == 0 || err != nil {
				return total, err
			}
			few = n < fewBytes
			continue
		}
		p, n, err := l.fill(rawSrc)
		if err == errNoPipe || err == unix.EINVAL { // the kernel does not splice every kind of socket
			moved, err := io.Copy(to, from)
			return total + moved, err
		}
		if n == 0 || err != nil {
			return total, err
		}
		moved, err := p.drain(rawDst, n)
		total += moved
		if err != nil {
			p.close() // not empty
			return total, err
		}
		l.put(p)
		few = n < fewBytes
	}
}

func rawTCP(conn net.Conn) (syscall.RawConn, bool) {
	var socket syscall.Conn
	switch c := conn.(type) {
	case *tcp.Conn:
		socket = c
	case *net.TCPConn:
		socket = c
	default:
		return nil, false
	}
	raw, err := socket.SyscallConn()
	return raw, err == nil
}

// fewBytes are copied through this process: a pipe would cost more. It is small,
// because a connection that takes nothing keeps them waiting.
const fewBytes = 2 << 10

// copyFew waits until the connection has bytes and copies some. n is how many there
// were, 0 when the connection has ended. Like a pipe, a buffer is taken only then.
func (l *pipePool) copyFew(to net.Conn, from syscall.RawConn) (n int, moved int64, err error) {
	var buf *[fewBytes]byte
	var failed error
	err = from.Read(func(fd uintptr) bool {
		var ok bool
		if buf, ok = l.few.Get().(*[fewBytes]byte); !ok {
			buf = new([fewBytes]byte)
		}
		if n, failed = tcp.TryRead(int(fd), buf[:]); failed == unix.EAGAIN {
			l.few.Put(buf)
			return false
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, 0, err
	}
	if n > 0 {
		var m int
		m, err = to.Write(buf[:n])
		moved = int64(m)
	}
	l.few.Put(buf)
	return n, moved, err
}

// pipe carries bytes from one socket to another.
type pipe struct{ ends [2]int }

// errNoPipe says that the connection has to be copied in another way.
const errNoPipe = unix.EMFILE

// maxIdlePipes bounds the pipes that are kept for the next bytes.
const maxIdlePipes = 32

// pipePool keeps empty pipes. The zero value is ready.
type pipePool struct {
	mu     sync.Mutex
	idle   []*pipe
	closed bool

	few sync.Pool
}

func (l *pipePool) take() (*pipe, error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		p := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return p, nil
	}
	l.mu.Unlock()
	p := &pipe{}
	if err := unix.Pipe2(p.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, errNoPipe
	}
	// A user may have only so many large pipes; the others are smaller.
	_, _ = unix.FcntlInt(uintptr(p.ends[0]), unix.F_SETPIPE_SZ, spliceChunk)
	return p, nil
}

// put takes an empty pipe back.
func (l *pipePool) put(p *pipe) {
	l.mu.Lock()
	keep := len(l.idle) < maxIdlePipes && !l.closed
	if keep {
		l.idle = append(l.idle, p)
	}
	l.mu.Unlock()
	if !keep {
		p.close()
	}
}

func (l *pipePool) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.idle {
		p.close()
	}
	l.idle, l.closed = nil, true
}

func (p *pipe) close() {
	unix.Close(p.ends[0])
	unix.Close(p.ends[1])
}

// fill waits until the connection has bytes and moves them into a pipe. 0 bytes
// mean that it ended; there is no pipe then.
func (l *pipePool) fill(from syscall.RawConn) (*pipe, int, error) {
	var p *pipe
	var n int64
	var failed error
	err := from.Read(func(fd uintptr) bool {
		if p, failed = l.take(); failed != nil {
			return true
		}
		n, failed = splice(int(fd), p.ends[1], spliceChunk)
		if n > 0 {
			return true
		}
		l.put(p)
		p = nil
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	if p == nil || n <= 0 {
		n = 0
	}
	return p, int(n), err
}

// drain moves what is in the pipe to a connection.
func (p *pipe) drain(to syscall.RawConn, n int) (moved int64, err error) {
	for n > 0 {
		var m int64
		var failed error
		err := to.Write(func(fd uintptr) bool {
			m, failed = splice(p.ends[0], int(fd), n)
			return failed != unix.EAGAIN
		})
		if err == nil {
			err = failed
		}
		if err == nil && m == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return moved, err
		}
		moved += m
		n -= int(m)
	}
	return moved, nil
}

func splice(from, to, n int) (int64, error) {
	for {
		m, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int64(m), err
		}
	}
}
