package testutil

import (
	"net"
	"runtime"
	"testing"
)

// A reserved port refuses connections, and whoever names it can listen there.
func TestReservedPort(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", ReservedPort(t))
	if conn, err := net.Dial("tcp4", address); err == nil {
		conn.Close()
		t.Error("somebody listens")
	}
	ln, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if other, err := net.Listen("tcp4", "127.0.0.1:0"); err != nil || runtime.GOOS == "linux" && Port(other) == Port(ln) {
		t.Errorf("given away: %v", err)
	} else {
		other.Close()
	}
}

func TestWithin(t *testing.T) {
	n := 0
	if !Within(Patience, func() bool { n++; return n == 3 }) || n != 3 {
		t.Errorf("%d looks", n)
	}
	if Within(0, func() bool { return false }) {
		t.Error("what never holds held")
	}
}
