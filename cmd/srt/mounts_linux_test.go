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
	const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"linux":{"backend":%q},
		"filesystem":{"denyRead":["t/sec"],"allowWrite":["t","u/new/dir"],"denyWrite":["t/link/kept"]}}`
	const set = `mkdir -p t/sub t/sec t/real u/sub && echo s > t/sec/s && echo k > t/real/kept && ln -s real t/link &&
		mount --make-rprivate / && mount -t tmpfs t t/sub && mount -t tmpfs u u/sub || exit 77
		echo below > t/sub/below; mkdir t/sub/again; mount -t tmpfs t t/sub/again; mkdir t/sub/.vscode; chown -R "$0" t/sub u .; exec "$@"`
	const try = `cat t/sub/below; echo written > t/sub/again/f && cat t/sub/again/f; mkdir -p u/new/dir && echo new > u/new/dir/f && cat u/new/dir/f
		cat t/sec/s; echo x > t/real/kept; rm t/link; mv t/sub t/aside; echo x > u/sub/f; echo x > t/sub/.vscode/f; mkdir t/sub/.idea; cat t/real/kept`
	amongMounts(t, set, settings, try, func(t *testing.T, said, refused string) {
		if want := "below\nwritten\nnew\nk\n"; said != want {
			t.Errorf("the command said %q, not %q: %s", said, want, refused)
		}
		for _, path := range []string{"t/sec/s", "t/real/kept", "t/link", "t/sub", "u/sub/f", "t/sub/.vscode/f", "t/sub/.idea"} {
			if !strings.Contains(refused, path) {
				t.Errorf("%s was not refused: %s", path, refused)
			}
		}
	})
}

// amongMounts runs a script with each backend and as each user, in a directory where
// root has mounted what set says: a script that gets the user's number, ends with
// exec "$@" and fails with 77 where the mounts cannot be had.
func amongMounts(t *testing.T, set, settings, try string, check func(t *testing.T, said, refused string)) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
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
				switch err := cmd.Run(); {
				case cmd.ProcessState.ExitCode() == 77:
					t.Skipf("mounting: %s", refused.String())
				case err != nil:
					t.Errorf("%v: %s", err, refused.String())
				}
				check(t, said.String(), refused.String())
			})
		}
	}
}
