package inside

import (
	"encoding/binary"
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

// What the kernel tells leads to the paths of that name, whatever its case, and to
// a look at everything when some of it is lost or a directory is gone.
func TestConcealerReads(t *testing.T) {
	event := func(wd int32, mask uint32, name string) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(wd))
		b = binary.NativeEndian.AppendUint32(b, mask)
		b = binary.NativeEndian.AppendUint32(b, 0)
		b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
		return append(b, name...)
	}
	for _, c := range []struct {
		name       string
		events     [][]byte
		want       int
		everything bool
	}{
		{"nothing", nil, 0, false},
		{"another name", [][]byte{event(1, unix.IN_CREATE, "other\x00\x00\x00")}, 0, false},
		{"one that counts, after others", [][]byte{event(1, unix.IN_CREATE, "other\x00\x00\x00"), event(1, unix.IN_MOVED_TO, ".ENV\x00\x00\x00\x00")}, 1, false},
		{"twice the same", [][]byte{event(1, unix.IN_CREATE, ".env\x00"), event(1, unix.IN_CREATE, ".env\x00")}, 1, false},
		{"another directory", [][]byte{event(2, unix.IN_CREATE, ".env\x00")}, 0, false},
		{"lost", [][]byte{event(-1, unix.IN_Q_OVERFLOW, "")}, 0, true},
		{"a directory that is gone", [][]byte{event(1, unix.IN_IGNORED, ""), event(1, unix.IN_CREATE, ".env\x00")}, 0, true},
	} {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		for _, e := range c.events {
			if _, err := unix.Write(pipe[1], e); err != nil {
				t.Fatal(err)
			}
		}
		tree := newConcealed("w", "/w")
		tree.child(".env")
		r := &concealer{events: pipe[0], watched: map[int32][]*concealed{1: {tree}}}
		if names, everything := r.read(); len(names) != c.want || everything != c.everything {
			t.Errorf("%s: %d paths, everything %v", c.name, len(names), everything)
		}
		closeAll(pipe[:])
	}
}
