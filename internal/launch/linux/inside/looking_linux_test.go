package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What is left of a look is told, each tree once, and no part of what is removed
// with the run.
func TestWhatIsLeftOfALook(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	n := &inspection{control: fds[0], private: filepath.Join(root, "tmp")}
	for _, name := range []string{"done/.git", "b/.git/logs", "tmp/c/.git", "b-c/.git", "b/.git", "b"} {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(full, 0o755); err != nil {
			t.Fatal(err)
		}
		n.list = append(n.list, noted{fd: directory(t, full, false)})
	}
	n.at.Store(1)
	n.leave("somebody ended it")
	var told []string
	for {
		kind, body, _, err := ReceiveMessage(fds[1])
		if err != nil {
			break
		}
		f := strings.Split(string(body), "\x00")
		if kind != MessageBlocked || len(f) != 5 || f[0] != repositoryUnseen || !strings.Contains(f[4], "somebody ended it") {
			t.Fatalf("message %c %q", kind, body)
		}
		told = append(told, strings.TrimPrefix(f[1], root+"/"))
	}
	if got := fmt.Sprint(told); got != "[b b-c/.git]" {
		t.Errorf("told: %s", got)
	}
}
