package proxy

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/tcp"
)

// asInSandbox makes a listener what srt makes of those that it gets from a sandbox.
func asInSandbox(t testing.TB, ln net.Listener) net.Listener {
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
	own, err := tcp.FileListener(fd)
	if err != nil {
		t.Fatal(err)
	}
	return own
}
