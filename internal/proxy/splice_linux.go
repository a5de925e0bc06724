package proxy

import (
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spliceChunk is how many bytes one splice(2) may move, and the size that pipes
// are asked to have.
const spliceChunk = 1 << 20

// copyConn copies from one connection to another until the first one ends, and
// returns how many bytes arrived. Between two TCP connections the bytes stay in
// the kernel. Other than with io.Copy a connection that is silent holds no pipe,
// so an idle tunnel costs the descriptors of its two ends alone.
func copyConn(to, from net.Conn) (int64, error) {
	dst, ok1 := to.(*net.TCPConn)
	src, ok2 := from.(*net.TCPConn)
	if !ok1 || !ok2 {
		return io.Copy(to, from)
	}
	rawDst, err1 := dst.SyscallConn()
	rawSrc, err2 := src.SyscallConn()
	if err1 != nil || err2 != nil {
		return io.Copy(to, from)
	}
	var total int64
	for {
		p, n, err := fill(rawSrc)
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
			return total, err
		}
	}
}

// pipe carries bytes from one socket to another.
type pipe struct{ ends [2]int }

var pipes sync.Pool // of *pipe, empty

// errNoPipe says that the connection has to be copied in another way.
const errNoPipe = unix.EMFILE

func takePipe() (*pipe, error) {
	if p, ok := pipes.Get().(*pipe); ok {
		return p, nil
	}
	p := &pipe{}
	if err := unix.Pipe2(p.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, errNoPipe
	}
	// A user may have only so many large pipes; the others are smaller.
	_, _ = unix.FcntlInt(uintptr(p.ends[0]), unix.F_SETPIPE_SZ, spliceChunk)
	runtime.AddCleanup(p, func(ends [2]int) { unix.Close(ends[0]); unix.Close(ends[1]) }, p.ends)
	return p, nil
}

// fill waits until the connection has bytes and moves them into a pipe. 0 bytes
// mean that it ended; there is no pipe then.
func fill(from syscall.RawConn) (*pipe, int, error) {
	var p *pipe
	var n int64
	var failed error
	err := from.Read(func(fd uintptr) bool {
		if p, failed = takePipe(); failed != nil {
			return true
		}
		n, failed = splice(int(fd), p.ends[1], spliceChunk)
		if n > 0 {
			return true
		}
		pipes.Put(p)
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

// drain moves what is in the pipe to a connection and gives the pipe back. A pipe
// that could not be emptied is left to the garbage collector.
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
	pipes.Put(p)
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
