//go:build !linux

// Package tcp has TCP connections for a filter that makes many short ones.
package tcp

import (
	"context"
	"net"
)

// Dial connects to an address and a port, or to a name and a port.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}
