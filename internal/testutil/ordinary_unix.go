//go:build unix

package testutil

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// ordinaryUser need not have an account.
const ordinaryUser = 31337

// RunOrdinary runs the calling test once more in a process of an ordinary user, and
// returns true, if this one is root's: permissions mean nothing to root.
func RunOrdinary(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		return false
	}
	exe := "/proc/self/exe" // the way to the binary may be closed to the user
	if runtime.GOOS != "linux" {
		exe = os.Args[0]
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=/", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	return true
}
