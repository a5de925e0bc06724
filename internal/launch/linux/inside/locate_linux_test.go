package inside

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// testGuard is a guard whose caller is the test itself, so that the kernel's own
// answer is the one to expect.
func testGuard(t testing.TB) (*guard, *call) {
	t.Helper()
	root, err := openObject("/")
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := openObject("/proc/tty") // of the same /proc, and holds no process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(root); unix.Close(nobody) })
	return &guard{listener: &listener{fd: -1}, root: root, initTask: nobody}, &call{pid: unix.Gettid()}
}

func makeTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"d", "d/e", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"l": "d", "up": "d/..", "loop": "loop", "dangling": "x", "d/back": "../f", "p": "/proc/self/cwd", "abs": dir, "slash": "d/", "f/": ""} {
		if name == "f/" {
			continue
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FuzzLocate resolves paths of every form. What is found in the directory that
// comes out must be what the kernel finds at the path.
func FuzzLocate(f *testing.F) {
	for _, path := range []string{"f", "d/", "l/back", "up/up/f", "loop", "loop/x", "dangling/", "abs/d/..//./f", "slash/e", "/proc/self/fd/0", "/proc/thread-self/cwd/f", "p/f", "p/../x", "/", "//", ".", "..", "d/e/../../l/e/",
		strings.Repeat("d/../", 700) + "f", strings.Repeat("n", 256), "f/.", "f/..", "/proc/self/task/../../self/cwd/f", "/proc/self/root/proc/self/status"} {
		f.Add(path)
	}
	dir := makeTree(f)
	g, _ := testGuard(f)
	base, err := openObject(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if path == "" || strings.Contains(path, "\x00") || len(path) >= unix.PathMax {
			return
		}
		var want, got unix.Stat_t
		expected := result(unix.Fstatat(base, path, &want, unix.AT_SYMLINK_NOFOLLOW))
		before := openDescriptors(t)
		at, e := g.locateFrom(&call{pid: unix.Gettid()}, base, path)
		if e == 0 {
			e = result(unix.Fstatat(at.dir, at.last(), &got, unix.AT_SYMLINK_NOFOLLOW))
			at.close()
		}
		if e != expected || e == 0 && (got.Ino != want.Ino || got.Dev != want.Dev) && !strings.Contains(path, "proc") {
			t.Errorf("%q: %v, the kernel says %v", path, e, expected)
		}
		if after := openDescriptors(t); after > before {
			t.Errorf("%q: %d descriptors before, %d after", path, before, after)
		}
	})
}

func openDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// FuzzSocketAddress reads addresses of every family as the guard does.
func FuzzSocketAddress(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{unix.AF_UNIX, 0})
	f.Add([]byte("\x01\x00/run/x\x00rest"))
	f.Add([]byte("\x01\x00\x00abstract"))
	f.Add([]byte{unix.AF_INET, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(append([]byte{unix.AF_INET6, 0, 0, 80}, make([]byte, 24)...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		name, ok := socketPath(raw)
		if ok && (name == "" || strings.Contains(name, "\x00") || len(name) > len(raw)-2) {
			t.Errorf("%q: the path %q", raw, name)
		}
		to, ok := destination(raw)
		if !ok {
			return
		}
		family := binary.NativeEndian.Uint16(raw)
		if to.Port() != binary.BigEndian.Uint16(raw[2:]) || family != unix.AF_INET && family != unix.AF_INET6 {
			t.Errorf("%q: the destination %v", raw, to)
		}
	})
}

// FuzzStatus reads what procfs says of a caller, who chooses part of it.
func FuzzStatus(f *testing.F) {
	f.Add("Name:\tx\nSigPnd:\t0000000000000200\nSigBlk:\t0000000000000001\n", "1 (x) S 1 2 3 34816 2")
	f.Add("SigPnd:\t1", "1 (a) b) R 0 0 0 0")
	f.Add("\nSigPnd:\txyz\n", ") ")
	f.Fuzz(func(t *testing.T, status, stat string) {
		if set := signalSet([]byte(status), "SigPnd"); set != 0 && !strings.Contains(status, "\nSigPnd:\t") {
			t.Errorf("%q: signals %x", status, set)
		}
		_, _ = terminalOf(stat)
	})
}

func TestTimeForms(t *testing.T) {
	bytes := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 5), 7)
	for _, form := range []struct {
		timeForm
		want unix.Timespec
	}{{timeSpecs, unix.Timespec{Sec: 5, Nsec: 7}}, {timeVals, unix.Timespec{Sec: 5, Nsec: 7000}}, {timeSeconds, unix.Timespec{Sec: 5}}} {
		if got := form.read(bytes[:form.size]); got != form.want {
			t.Errorf("%v, expected %v", got, form.want)
		}
	}
}
