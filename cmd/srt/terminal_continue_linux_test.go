package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// A shell that continues a job at once, while srt still stops itself, does not leave
// it stopped. The kernel forgets a SIGCONT that no thread has taken when the stop is
// sent, so that a few microseconds remain in which one is lost.
func TestContinueAtOnce(t *testing.T) {
	const rounds, most = 120, 12
	s := newSandboxed(t, os.Getuid(), workSettings)
	m := mark()
	cmd := s.command(strings.Fields(m)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	command := 0
	testutil.Within(testutil.Patience, func() bool {
		for _, p := range (&screen{}).jobs(m) {
			if strings.HasPrefix(p.line, m) {
				command = p.pid
			}
		}
		return command != 0
	})
	if command == 0 {
		t.Fatal("the command does not begin")
	}
	stuck := 0
	for n := range rounds {
		_ = cmd.Process.Signal(unix.SIGTSTP)
		for end := time.Now().Add(5 * time.Second); !isStopped(command); { // without a pause: what follows is a matter of microseconds
			if time.Now().After(end) {
				stuck++ // srt itself stopped once more after the last round, and hears nothing
				break
			}
		}
		for end := time.Now().Add(time.Duration(n%40) * 20 * time.Microsecond); time.Now().Before(end); {
		}
		_ = cmd.Process.Signal(unix.SIGCONT)
		time.Sleep(30 * time.Millisecond)
		goesOn := func() bool { return !isStopped(cmd.Process.Pid) && !isStopped(command) }
		if !testutil.Within(300*time.Millisecond, goesOn) {
			stuck++
			_ = cmd.Process.Signal(unix.SIGCONT)
			testutil.Within(testutil.Patience, goesOn)
		}
	}
	if stuck > most {
		t.Errorf("%d of %d times the job stayed stopped", stuck, rounds)
	}
}

func isStopped(pid int) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.Contains(data, []byte(") T "))
}
