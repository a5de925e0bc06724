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

// A subvolume is a directory that ioctl(2) makes, by a name that no call for names
// sees. So a protected name cannot come that way, and there are none at all.
func TestSubvolumes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	for _, program := range []string{"unshare", "mkfs.btrfs", "btrfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"linux":{"backend":%q},"filesystem":{"denyRead":[],"allowWrite":["t"],"denyWrite":["t/later"]}}`
	const set = `PATH=$PATH:/usr/sbin:/sbin; truncate -s 200M image && mkfs.btrfs -q image >/dev/null && mkdir t && mount --make-rprivate / && mount -o loop image t || exit 77
		btrfs subvolume create t/outside >/dev/null && echo '{}' > t/outside/tasks.json || exit 77
		chown -R "$0" t .; exec "$@"`
	const try = `for n in .vscode later free; do btrfs subvolume create t/$n; btrfs subvolume snapshot t/outside t/$n; done
		btrfs subvolume delete t/outside; ls -A t; cat t/outside/tasks.json; mkdir t/free && echo free`
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
				cmd.Path, _ = exec.LookPath("unshare")
				cmd.SysProcAttr = nil
				var said, refused strings.Builder
				cmd.Stdout, cmd.Stderr = &said, &refused
				if err := cmd.Run(); cmd.ProcessState.ExitCode() == 77 {
					t.Skipf("mounting: %s", refused.String())
				} else if want := "outside\n{}\nfree\n"; err != nil || !strings.HasSuffix(said.String(), want) {
					t.Errorf("%v, the command said %q, not %q: %s", err, said.String(), want, refused.String())
				}
				if n := strings.Count(refused.String(), "Operation not supported"); n < 6 {
					t.Errorf("%d of 6 requests are not supported: %s", n, refused.String())
				}
			})
		}
	}
}
