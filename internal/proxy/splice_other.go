//go:build !linux

package proxy

import (
	"io"
	"net"
)

// copyConn copies from one connection to another until the first one ends, and
// returns how many bytes arrived.
func copyConn(to, from net.Conn) (int64, error) { return io.Copy(to, from) }
