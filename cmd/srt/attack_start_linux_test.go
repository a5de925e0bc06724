package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that still runs exchanges a write root with a link that leads
// outside while the next sandbox is being built. Wherever the exchange falls,
// nothing outside becomes writable.
func TestExchangeDuringStart(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["d","e/f"],"denyWrite":["d/kept"]}}`)
			for _, name := range []string{"d", "e", "e/f"} {
				s.directory(filepath.Join(s.dir, name))
			}
			s.directory(filepath.Join(s.home, "f"))
			for _, name := range []string{"ld", "le"} {
				if err := os.Symlink(s.home, filepath.Join(s.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			stop := exchangeForever(s.dir, [][2]string{{"d", "ld"}, {"e", "le"}})
			runs, refused, started := 60, 0, 0
			if raceEnabled {
				runs = 6
			}
			// At least one run has to meet the directories in their places.
			for n := 0; n < runs || refused == n && n < 50*runs; n++ {
				out, err := s.command("-c", "for p in d ld e/f le/f; do echo evil > $p/evil; echo evil > $p/kept; done 2>/dev/null; true").CombinedOutput()
				if err != nil {
					if !strings.Contains(string(out), "Error: setting up the sandbox") {
						t.Errorf("%v: %s", err, out)
					}
					refused++
				} else {
					started++
				}
			}
			stop()
			for _, name := range []string{"evil", "kept", "f/evil", "f/kept"} {
				if _, err := os.Lstat(filepath.Join(s.home, name)); err == nil {
					t.Errorf("%s was written outside", name)
				}
			}
			t.Logf("%d runs were refused, %d not", refused, started)
			if started == 0 {
				t.Error("no run started at all")
			}
		})
	}
}

// directory makes a directory of the sandbox's user.
func (s *sandboxed) directory(name string) {
	s.t.Helper()
	err := os.Mkdir(name, 0o755)
	if err == nil && os.Getuid() == 0 {
		err = os.Chown(name, s.uid, s.uid)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// exchangeForever exchanges the pairs of names until the returned function is called.
func exchangeForever(dir string, pairs [][2]string) func() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, p := range pairs {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, p[0]), unix.AT_FDCWD, filepath.Join(dir, p[1]), unix.RENAME_EXCHANGE)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}
