// Package testutil holds what tests of several packages share.
package testutil

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Listen listens on a free port of the IPv4 loopback until the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// Port is the port of a listener.
func Port(ln net.Listener) string {
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// serveTime bounds one connection, so that a test that goes wrong ends.
const serveTime = 2 * Patience

// Serve runs handle for each connection of a listener, which it closes at the end
// of the test; every handler has returned then.
func Serve(t testing.TB, ln net.Listener, handle func(net.Conn)) {
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(serveTime))
				handle(conn)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wait.Wait() })
}
