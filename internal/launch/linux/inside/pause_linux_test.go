package inside

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Nobody is missed whose brothers have ended while he is looked for.
func TestLookMissesNobody(t *testing.T) {
	var p pauses
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	missed, looks := 0, 0
	for range 20 {
		const brothers = 200
		for range brothers {
			// Not with os/exec, which keeps a descriptor of each.
			if _, err := syscall.ForkExec(path, []string{"true"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		stays := exec.Command("sleep", "60")
		if err := stays.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // until most have ended
		reaped := make(chan error)
		go func() {
			var err error
			for n := 0; n < brothers && err == nil; {
				var number int
				if number, _, _, err = p.reap(); number > 0 {
					n++
				}
			}
			reaped <- err
		}()
		for over := false; !over; looks++ {
			select {
			case err := <-reaped:
				if over = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
			p.mu.Lock()
			if !slices.Contains(newFamily().children(os.Getpid()), stays.Process.Pid) {
				missed++
			}
			p.mu.Unlock()
		}
		_ = stays.Process.Signal(os.Kill)
		_ = stays.Wait()
	}
	if missed > 0 {
		t.Errorf("missed in %d of %d looks", missed, looks)
	}
}
