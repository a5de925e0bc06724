package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// A mount of the host in a write root is as writable as the root, whatever stands
// beside it: something denied, a link that is kept, an entry that does not exist yet.
func TestMountsBelowRoots(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"linux":{"backend":%q},
		"filesystem":{"denyRead":["t/sec"],"allowWrite":["t","u/new/dir"],"denyWrite":["t/link/kept"]}}`
	const set = `mkdir -p t/sub t/sec t/real u/sub && echo s > t/sec/s && echo k > t/real/kept && ln -s real t/link &&
		mount --make-rprivate / && mount -t tmpfs t t/sub && mount -t tmpfs u u/sub || exit 77
		echo below > t/sub/below; mkdir t/sub/again; mount -t tmpfs t t/sub/again; mkdir t/sub/.vscode; chown -R "$0" t/sub u .; exec "$@"`
	const try = `cat t/sub/below; echo written > t/sub/again/f && cat t/sub/again/f; mkdir -p u/new/dir && echo new > u/new/dir/f && cat u/new/dir/f
		cat t/sec/s; echo x > t/real/kept; rm t/link; mv t/sub t/aside; echo x > u/sub/f; echo x > t/sub/.vscode/f; mkdir t/sub/.idea; cat t/real/kept`
	for _, backend := range []string{config.BackendNative, config.BackendBubblewrap, config.BackendLandlock} {
		for _, uid := range users() {
			t.Run(fmt.Sprintf("%s/uid%d", backend, uid), func(t *testing.T) {
				if _, err := exec.LookPath("bwrap"); err != nil && backend == config.BackendBubblewrap {
					t.Skip(err)
				}
				s := newSandboxed(t, uid, fmt.Sprintf(settings, backend))
				cmd := s.command("-c", try)
				id := strconv.Itoa(uid)
				cmd.Args = append([]string{"unshare", "-m", "sh", "-c", set, id, "setpriv", "--reuid", id, "--regid", id, "--clear-groups", cmd.Path}, cmd.Args[1:]...)
				cmd.Path, cmd.SysProcAttr = unshare, nil
				var said, refused strings.Builder
				cmd.Stdout, cmd.Stderr = &said, &refused
				if err := cmd.Run(); cmd.ProcessState.ExitCode() == 77 {
					t.Skipf("mounting: %s", refused.String())
				} else if want := "below\nwritten\nnew\nk\n"; err != nil || said.String() != want {
					t.Errorf("%v, the command said %q, not %q: %s", err, said.String(), want, refused.String())
				}
				for _, path := range []string{"t/sec/s", "t/real/kept", "t/link", "t/sub", "u/sub/f", "t/sub/.vscode/f", "t/sub/.idea"} {
					if !strings.Contains(refused.String(), path) {
						t.Errorf("%s was not refused: %s", path, refused.String())
					}
				}
			})
		}
	}
}
