package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A binary that its users may execute and not read makes processes whose entries in
// /proc belong to root. srt-init writes the mapping of its user there.
func TestUnreadableProgram(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`)
			if err := os.Chmod(s.binary, 0o111); err != nil {
				t.Fatal(err)
			}
			if out, err := s.command("-c", "id -u > owner").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			owner, err := os.ReadFile(filepath.Join(s.dir, "owner"))
			if want := fmt.Sprintln(uid); err != nil || string(owner) != want {
				t.Errorf("the command's user is %q, %v, want %q", owner, err, want)
			}
		})
	}
}
