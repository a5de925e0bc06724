package proxy

import (
	"net"
	"testing"

	"github.com/srt-sandbox/srt/internal/tcp"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// asInSandbox makes a listener what srt makes of those that it gets from a sandbox.
func asInSandbox(t testing.TB, ln net.Listener) net.Listener {
	t.Helper()
	own, err := tcp.FileListener(testutil.Descriptor(t, ln))
	if err != nil {
		t.Fatal(err)
	}
	return own
}
