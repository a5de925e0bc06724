//go:build unix

package testutil

import (
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// ReservedPort is a port of 127.0.0.1 at which nobody listens and which the system
// gives to nobody else until the test ends. Whoever asks for it by its number, as
// net.Listen and most servers do, can listen there.
func ReservedPort(t testing.TB) string {
	t.Helper()
	port, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// ReservePort is ReservedPort where there is no test. The socket that holds the port
// does not listen, and other sockets with SO_REUSEADDR may have the same address.
func ReservePort() (port string, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, err
	}
	unix.CloseOnExec(fd)
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return "", nil, err
	}
	return strconv.Itoa(name.(*unix.SockaddrInet4).Port), func() { unix.Close(fd) }, nil
}

// NeedFiles skips a test that opens more files than this process may.
func NeedFiles(t testing.TB, n int) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Max) < uint64(n) {
		t.Skipf("this process may have %d open files at most", limit.Max)
	}
}

// Descriptor returns the socket of a TCP listener, which it closes.
func Descriptor(t testing.TB, ln net.Listener) int {
	t.Helper()
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
