//go:build !linux

package proxy

import (
	"net"
	"testing"
)

// asInSandbox makes a listener what srt makes of those that it gets from a sandbox.
func asInSandbox(_ testing.TB, ln net.Listener) net.Listener { return ln }
