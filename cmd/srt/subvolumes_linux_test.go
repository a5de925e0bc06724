package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A subvolume is a directory that ioctl(2) makes, by a name that no call for names
// sees. So a protected name cannot come that way, and there are none at all.
func TestSubvolumes(t *testing.T) {
	for _, program := range []string{"mkfs.btrfs", "btrfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"linux":{"backend":%q},"filesystem":{"denyRead":[],"allowWrite":["t"],"denyWrite":["t/later"]}}`
	const set = `PATH=$PATH:/usr/sbin:/sbin; truncate -s 200M image && mkfs.btrfs -q image >/dev/null && mkdir t && mount --make-rprivate / && mount -o loop image t || exit 77
		btrfs subvolume create t/outside >/dev/null && echo '{}' > t/outside/tasks.json || exit 77
		chown -R "$0" t .; exec "$@"`
	const try = `{ for n in .vscode later free; do btrfs subvolume create t/$n; btrfs subvolume snapshot t/outside t/$n; done
		btrfs subvolume delete t/outside; } >/dev/null; ls -A t; cat t/outside/tasks.json; mkdir t/free && echo free`
	amongMounts(t, set, settings, try, func(t *testing.T, said, refused string) {
		if want := "outside\n{}\nfree\n"; said != want {
			t.Errorf("the command said %q, not %q: %s", said, want, refused)
		}
		if n := strings.Count(refused, "Operation not supported"); n < 6 {
			t.Errorf("%d of 6 requests are not supported: %s", n, refused)
		}
	})
}
