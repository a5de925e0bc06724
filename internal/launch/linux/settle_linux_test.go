package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A job goes on as a whole after a stop, also what was being forked when the stop
// came: without the wait some rounds in a hundred leave such a process behind. On a
// machine where a process does not run for as long as the wait lasts, one may stay.
func TestStopWhileForking(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do (:); done & while :; do (:); done & exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	job := cmd.Process.Pid
	t.Cleanup(func() {
		_ = unix.Kill(-job, unix.SIGKILL)
		_ = cmd.Wait()
	})
	const rounds, bearable = 200, 3
	left := 0
	for round := 0; round < rounds && left <= bearable; round++ {
		time.Sleep(time.Millisecond)
		if err := unix.Kill(-job, unix.SIGTTOU); err != nil {
			t.Fatal(err)
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(job, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("the job is not stopped: %#x, %v", status, err)
		}
		awaitStop(job, unix.SIGTTOU)
		if err := unix.Kill(-job, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(2 * time.Second); stoppedIn(t, job); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				left++
				_ = unix.Kill(-job, unix.SIGCONT)
				break
			}
		}
	}
	if left > bearable {
		t.Errorf("%d times a process of the job stayed stopped", left)
	}
}

func stoppedIn(t *testing.T, job int) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, _, group, ok := readStat(name); ok && group == job && stateIn(filepath.Dir(name)) == "T" {
			return true
		}
	}
	return false
}

// stateIn is the letter of a process's state.
func stateIn(dir string) string {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return ""
	}
	return statusField(string(status), "State")[:1]
}

// Who would not be stopped is not waited for.
func TestStopOfOthers(t *testing.T) {
	for script, want := range map[string]bool{
		"exec sleep 1000":                  true,
		"trap '' TTOU; exec sleep 1000":    false,
		"trap : TTOU; while :; do :; done": false,
		"kill -STOP $$; exec sleep 1000":   false,
	} {
		cmd := exec.Command("sh", "-c", script+" #")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid))
		for end := time.Now().Add(20 * time.Second); stops(dir, unix.SIGTTOU) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: the signal stops it: %v, want %v", script, !want, want)
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
