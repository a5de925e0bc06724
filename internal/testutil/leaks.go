package testutil

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// RunWithoutLeaks runs the tests of a package and ends the process. Goroutines that
// are left make the tests fail. Those that are about to end get as long as a busy
// machine may need, which is more than goleak's own second.
func RunWithoutLeaks(m *testing.M) {
	status := m.Run()
	if status == 0 {
		var err error
		if !Within(Patience, func() bool { err = goleak.Find(); return err == nil }) {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}
