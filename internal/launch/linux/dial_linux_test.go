package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// halves returns a sandbox and the other end of its control socket. Messages are
// handled as in Wait.
func halves(t *testing.T) (*process, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{control: fds[0], exited: make(chan struct{}), request: launch.Request{Note: func(string) {}, Violation: func(launch.Violation) {}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			kind, body, fds, err := inside.ReceiveMessage(p.control)
			if err != nil {
				return
			}
			p.event(kind, body, fds)
		}
	}()
	t.Cleanup(func() {
		_ = unix.Shutdown(fds[1], unix.SHUT_RDWR)
		<-done
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return p, fds[1]
}

// answers plays srt-init: it makes the descriptors of each answer with give.
func answers(t *testing.T, control int, give func(id []byte) (body []byte, fds []int)) {
	t.Helper()
	go func() {
		for {
			kind, id, _, err := inside.ReceiveMessage(control)
			if err != nil {
				return
			}
			if kind != inside.MessageSockets || len(id) != 4 {
				t.Errorf("asked %c %v", kind, id)
			}
			body, fds := give(id)
			_ = inside.SendMessage(control, inside.MessageSockets, body, fds...)
			closeDescriptors(fds)
		}
	}()
}

func freshSockets() []int {
	var fds []int
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// closedAgain waits until every message from control has been read and no more
// descriptors than before are open. A count alone may fall between two messages.
func closedAgain(t *testing.T, control, before int) {
	t.Helper()
	var unread, open int
	closed := testutil.Within(testutil.Patience, func() bool {
		var err error
		if unread, err = unix.IoctlGetInt(control, unix.SIOCOUTQ); err != nil {
			t.Fatal(err)
		}
		open = openDescriptors(t)
		return unread == 0 && open <= before
	})
	if !closed {
		t.Errorf("%d bytes unread, %d descriptors open that were not before", unread, open-before)
	}
}

// questions counts those that are not answered.
func questions(p *process) int {
	p.sockets.mu.Lock()
	defer p.sockets.mu.Unlock()
	return len(p.sockets.waiting)
}

func portOf(ln net.Listener) int { return ln.Addr().(*net.TCPAddr).Port }

// Servers on either loopback address are found, also those that start later.
func TestDial(t *testing.T) {
	p, control := halves(t)
	answers(t, control, func(id []byte) ([]byte, []int) { return id, freshSockets() })
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		conn, err := p.Dial(t.Context(), portOf(ln))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "through")
		conn.Close()
		if text, _ := io.ReadAll(got); string(text) != "through" {
			t.Errorf("%s: %q", address, text)
		}
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("%s: a %T cannot be spliced", address, conn)
		}
		got.Close()
		ln.Close()
	}

	port := testutil.ReservedPort(t)
	number, _ := strconv.Atoi(port)
	time.AfterFunc(150*time.Millisecond, func() {
		ln, err := net.Listen("tcp4", "127.0.0.1:"+port)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = ln.Accept()
		ln.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	conn, err := p.Dial(ctx, number)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// Without a server the wait ends with the context, and with the sandbox.
func TestDialEnds(t *testing.T) {
	p, control := halves(t)
	answers(t, control, func(id []byte) ([]byte, []int) { return id, freshSockets() })
	port, _ := strconv.Atoi(testutil.ReservedPort(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // several attempts
	defer cancel()
	if _, err := p.Dial(ctx, port); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
	time.AfterFunc(30*time.Millisecond, func() { close(p.exited) })
	if _, err := p.Dial(t.Context(), port); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("at the end of the sandbox: %v", err)
	}
}

// A server that listens and never accepts is given up on.
func TestDialFullBacklog(t *testing.T) {
	p, control := halves(t)
	answers(t, control, func(id []byte) ([]byte, []int) { return id, freshSockets()[:1] })
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		conn, err := p.Dial(ctx, name.(*unix.SockaddrInet4).Port)
		cancel()
		if last = err; err != nil {
			break
		}
		defer conn.Close()
	}
	if !errors.Is(last, os.ErrDeadlineExceeded) {
		t.Errorf("ended with %v", last)
	}
}

// Whatever answers come, no descriptor is kept that nobody asked for, nothing but
// TCP sockets is connected, and the next connection works.
func TestDialHostileAnswers(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file := func() []int {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
		}
		return []int{fd}
	}
	datagram := func() []int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
		}
		return []int{fd}
	}
	connected := func() []int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: portOf(ln), Addr: [4]byte{127, 0, 0, 1}})
		}
		if err != nil {
			t.Error(err)
		}
		return []int{fd}
	}
	for name, give := range map[string]func(id []byte) ([]byte, []int){
		"another number":     func([]byte) ([]byte, []int) { return []byte{9, 9, 9, 9}, file() },
		"no number":          func([]byte) ([]byte, []int) { return nil, file() },
		"too long a number":  func(id []byte) ([]byte, []int) { return append(id, 0), freshSockets() },
		"nothing":            func(id []byte) ([]byte, []int) { return id, nil },
		"a file":             func(id []byte) ([]byte, []int) { return id, file() },
		"a datagram socket":  func(id []byte) ([]byte, []int) { return id, datagram() },
		"a connected socket": func(id []byte) ([]byte, []int) { return id, connected() },
		"a file too":         func(id []byte) ([]byte, []int) { return id, append(file(), freshSockets()...) },
	} {
		t.Run(name, func(t *testing.T) {
			p, control := halves(t)
			before := openDescriptors(t)
			answers(t, control, give)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if conn, err := p.Dial(ctx, portOf(ln)); err == nil {
				conn.Close()
				t.Error("a connection was made")
			}
			if n := questions(p); n != 0 {
				t.Errorf("%d questions are remembered", n)
			}
			closedAgain(t, control, before)
		})
	}
}

// Answers that nobody waits for, and descriptors with messages that have none, are
// closed.
func TestUnaskedDescriptors(t *testing.T) {
	p, control := halves(t)
	before := openDescriptors(t)
	for i := range 300 {
		fds := freshSockets()
		kind := []inside.MessageKind{inside.MessageSockets, inside.MessageNote, inside.MessageViolation, inside.MessageListener, inside.MessageAsk, '?'}[i%6]
		if err := inside.SendMessage(control, kind, binary.BigEndian.AppendUint32(nil, uint32(i)), fds...); err != nil {
			t.Fatal(err)
		}
		closeDescriptors(fds)
	}
	closedAgain(t, control, before)
	if questions(p) != 0 {
		t.Error("an answer made a question")
	}
}

// An srt-init that does not answer is asked a bounded number of times.
func TestDialBounded(t *testing.T) {
	p, _ := halves(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	for range 3 * maxSocketRequests {
		wait.Go(func() {
			if conn, err := p.Dial(ctx, 1); err == nil {
				conn.Close()
			}
		})
	}
	testutil.Eventually(t, "as many questions as may wait", func() bool { return questions(p) >= maxSocketRequests })
	time.Sleep(50 * time.Millisecond) // for more, which there must not be
	if asked := questions(p); asked != maxSocketRequests {
		t.Errorf("%d questions wait, %d may", asked, maxSocketRequests)
	}
	cancel()
	wait.Wait()
	if n := questions(p); n != 0 {
		t.Errorf("%d questions are remembered", n)
	}
}
