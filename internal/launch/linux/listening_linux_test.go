package linux

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Servers of both families are seen, and seen to go.
func TestNothingListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		if _, err := listens(unix.AF_INET, 1); err != nil {
			t.Skipf("the kernel does not tell: %v", err)
		}
		if nothingListens(portOf(ln)) {
			t.Errorf("%s is not seen", address)
		}
		ln.Close()
		if !nothingListens(portOf(ln)) {
			t.Errorf("%s is seen after its end", address)
		}
	}
}

func FuzzFindListener(f *testing.F) {
	f.Add([]byte{16, 0, 0, 0, unix.NLMSG_DONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(append([]byte{88, 0, 0, 0, sockDiag, 0}, make([]byte, 82)...))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if found, done, err := findListener(answer, 80); found && (done || err != nil) {
			t.Errorf("found, and %v, %v", done, err)
		}
	})
}
