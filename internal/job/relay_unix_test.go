//go:build unix

package job

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A SIGQUIT that comes when the command has ended does nothing. Without that this
// test ends in a list of goroutines.
func TestQuitAfterTheEnd(t *testing.T) {
	NewRelay(func(error) {}).Stop()
	if err := unix.Kill(os.Getpid(), unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // for the thread that gets the signal
}
