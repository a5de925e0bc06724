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

// While srt answers a stop of the command, which may wait for the terminal, nobody
// else continues it: a shell inside that goes on too early stops itself again, and srt
// with it.
func TestContinueDuringAnswer(t *testing.T) {
	control, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(control[0])
	defer unix.Close(control[1])
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	stopped := func() bool {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
		if err != nil {
			t.Fatal(err)
		}
		return statusField(string(text), "State")[0] == 'T'
	}
	await := func(want bool, what string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); stopped() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	p := &process{leader: cmd.Process.Pid, control: control[0]}
	halt := func() {
		p.mu.Lock()
		p.answering = true
		p.mu.Unlock()
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		await(true, "it does not stop")
	}

	halt()
	p.answered(false)
	if !stopped() {
		t.Error("it went on though nobody continued it")
	}

	halt()
	before := stop{continues: p.continues}
	if err := p.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !stopped() || !p.continuedSince(before) {
		t.Error("it went on before the answer, or the answer does not know that it shall")
	}
	p.answered(false)
	await(false, "it stays stopped though somebody continued it")

	halt()
	p.answered(true)
	await(false, "it does not go on with the answer")
	halt()
	p.answered(false)
	if !stopped() {
		t.Error("a continuation counted twice")
	}
}
