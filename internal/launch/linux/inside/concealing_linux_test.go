package inside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What cannot be hidden again is an error, which ends the sandbox, and so is a look
// that fails for want of something. What is not there is none.
func TestConcealFails(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c := &concealer{tree: newConcealed("/", ""), file: blank{source: -1, next: -1}, dir: blank{source: -1, next: -1}}
	n := c.tree.add(ConcealedPath{Path: filepath.Join(dir, "secret")})
	if err := c.visit(fd, n); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.visit(fd, n); err == nil || !strings.Contains(err.Error(), n.path) {
		t.Errorf("with one that cannot be covered: %v", err)
	}
	for _, e := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if c.unreached(n, e) == nil {
			t.Errorf("%v is taken for nothing there", e)
		}
	}
	if c.blind {
		t.Error("looking from time to time for nothing")
	}
	if err := c.unreached(n, unix.EACCES); err != nil || !c.blind {
		t.Errorf("a directory that nobody may search: %v", err)
	}
}
