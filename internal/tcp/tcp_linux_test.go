package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen returns a listener on a loopback address.
func listen(t testing.TB, address string) *Listener {
	t.Helper()
	std, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	ln, err := FileListener(testutil.Descriptor(t, std))
	if err != nil {
		t.Fatal(err)
	}
	if ln.Addr().String() != std.Addr().String() {
		t.Errorf("the address is %v, want %v", ln.Addr(), std.Addr())
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// pair returns both ends of a connection: the one that was dialed first.
func pair(t testing.TB, address string) (*Conn, *Conn) {
	t.Helper()
	ln := listen(t, address)
	one, err := Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	two, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{one, two} {
		_ = c.SetDeadline(time.Now().Add(testutil.Patience))
		t.Cleanup(func() { c.Close() })
	}
	return one.(*Conn), two.(*Conn)
}

func TestConn(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			one, two := pair(t, address)
			if one.LocalAddr().String() != two.RemoteAddr().String() || one.RemoteAddr().String() != two.LocalAddr().String() {
				t.Errorf("%v-%v and %v-%v", one.LocalAddr(), one.RemoteAddr(), two.LocalAddr(), two.RemoteAddr())
			}
			for _, c := range []*Conn{one, two} {
				_ = c.raw.Control(func(fd uintptr) {
					if on, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY); on == 0 || err != nil {
						t.Errorf("small writes wait (%v)", err)
					}
					if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
						t.Errorf("programs inherit it (%v)", err)
					}
				})
			}
			// More than fits into the kernel, to a reader that comes late.
			big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
			wrote := make(chan error, 1)
			go func() {
				_, err := one.Write(big)
				wrote <- errors.Join(err, one.CloseWrite())
			}()
			time.Sleep(10 * time.Millisecond)
			if got, err := io.ReadAll(two); err != nil || !bytes.Equal(got, big) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if n, err := two.Read(make([]byte, 1)); n != 0 || err != io.EOF { // as it is: callers compare
				t.Errorf("after the end: %d, %v", n, err)
			}
			if _, err := two.Write([]byte("back")); err != nil {
				t.Error(err)
			}
			got := make([]byte, 4)
			if _, err := io.ReadFull(one, got); err != nil || string(got) != "back" {
				t.Errorf("%q, %v", got, err)
			}
			one.Close()
			if one.RemoteAddr().String() != two.LocalAddr().String() {
				t.Errorf("closed, it says %v", one.RemoteAddr())
			}
		})
	}
}

// Errors are those of the package net.
func TestConnErrors(t *testing.T) {
	one, two := pair(t, "127.0.0.1:0")
	var timeout net.Error
	_ = one.SetReadDeadline(time.Unix(1, 0))
	if _, err := one.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a deadline: %v", err)
	}
	_ = one.SetReadDeadline(time.Time{})
	closed := make(chan error)
	go func() {
		_, err := one.Read(make([]byte, 1))
		closed <- err
	}()
	time.Sleep(time.Millisecond)
	_ = one.SetLinger(0)
	one.Close()
	if err := <-closed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed here: %v", err)
	}
	if _, err := one.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed here: %v", err)
	}
	if _, err := two.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	if _, err := two.Write([]byte("x")); !errors.Is(err, unix.EPIPE) || !strings.HasPrefix(err.Error(), "write tcp ") {
		t.Errorf("reset: %v", err)
	}
}

func TestListenerCloses(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	accepted := make(chan error)
	go func() {
		_, err := ln.Accept()
		accepted <- err
	}()
	time.Sleep(time.Millisecond)
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), ln.Addr().String()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Error(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FileListener(null); err == nil {
		t.Error("a file is no listener")
	}
	if err := unix.Close(null); err != unix.EBADF {
		t.Errorf("the descriptor stays open: %v", err)
	}
}

// A dial waits for as long as its context lasts, and gets what comes in that time.
func TestDialWaits(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	const waiting = 0 // the kernel keeps one connection more than that
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, waiting)); err != nil {
		t.Fatal(err)
	}
	ln, err := FileListener(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	first, err := Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := Dial(ctx, ln.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", conn, err)
	}
	if _, err := Dial(ctx, ln.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	dialed := make(chan error)
	go func() {
		conn, err := Dial(t.Context(), ln.Addr().String())
		if err == nil {
			_, err = conn.Write([]byte("x"))
			conn.Close()
		}
		dialed <- err
	}()
	time.Sleep(50 * time.Millisecond) // until the kernel has refused it for the first time
	for range 2 {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if err := <-dialed; err != nil {
		t.Error(err)
	}
}

// A port on which nothing listens does not connect to itself, which the kernel makes
// of it when it happens to choose the same port for the other end.
func TestDialItself(t *testing.T) {
	low, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	var port int
	fmt.Sscan(string(low), &port)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)|1)
	met := 0
	for range 200 {
		fd, err := newSocket(to.Addr())
		if err != nil {
			t.Fatal(err)
		}
		sa := newSockaddr(to)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
			unix.Close(fd)
			t.Skip(err)
		}
		if connect(fd, sa) == unix.EINPROGRESS && connect(fd, sa) == nil {
			c, err := newConn(fd)
			if err != nil {
				t.Fatal(err)
			}
			met++
			if !c.isSelf(to) {
				t.Fatal("a connection that met itself is not recognised")
			}
			c.Close()
			break
		}
		unix.Close(fd)
	}
	if met == 0 {
		t.Skip("this kernel connects nothing to itself")
	}
	one, two := pair(t, "127.0.0.1:0")
	if one.isSelf(two.LocalAddr().(*net.TCPAddr).AddrPort()) {
		t.Error("a connection to another socket is taken for one to itself")
	}
}
