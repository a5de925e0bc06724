package inside

import (
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeper starts a process with a file mode mask of its own.
func sleeper(t *testing.T, mask string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "umask "+mask+"; echo; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func wantUmask(t *testing.T, k *tasks, pid, want int) {
	t.Helper()
	if mask, e := k.umask(pid); mask != want || e != 0 {
		t.Errorf("umask of %d is %#o, %v, want %#o", pid, mask, e, want)
	}
}

func TestUmaskOfCallers(t *testing.T) {
	var k tasks
	a, b := sleeper(t, "027").Process.Pid, sleeper(t, "0").Process.Pid
	for range 2 { // the second time from memory
		wantUmask(t, &k, a, 0o027)
		wantUmask(t, &k, b, 0)
	}
}

// A mask is remembered only while nobody is changing one.
func TestUmaskChanges(t *testing.T) {
	var k tasks
	a, b := sleeper(t, "027").Process.Pid, sleeper(t, "0").Process.Pid
	remembered := func(want bool) {
		t.Helper()
		wantUmask(t, &k, a, 0o027)
		if got := k.recent[a%recentTasks].known; got != want {
			t.Errorf("mask remembered: %v, want %v", got, want)
		}
	}
	remembered(true)
	k.changeMask(b, 0o777) // does not happen
	remembered(false)
	k.masks.returned(a)
	remembered(false)
	k.masks.returned(b) // but the process went on
	remembered(true)
	k.changeMask(b, 0) // makes no difference
	remembered(true)
	k.changeMask(a, 0o027) // with another one pending nobody can tell
	k.changeMask(b, 0)
	remembered(false)
	k.masks.returned(a)
	remembered(true)

	k.changeMask(a, 0)
	gone := sleeper(t, "0")
	k.changeMask(gone.Process.Pid, 0o777)
	k.masks.returned(a)
	remembered(false)
	_ = gone.Process.Kill()
	_ = gone.Wait()
	remembered(true)

	const beyond = 1 << 23 // no process has such a number
	for tid := range maxMaskChanges + 1 {
		k.changeMask(beyond+tid, 0)
	}
	remembered(false)
	if n := len(k.masks.pending); n > maxMaskChanges {
		t.Errorf("%d changes are followed", n)
	}
}

// A process number that was seen before may be somebody else's by now.
func TestRememberedCallerIsGone(t *testing.T) {
	var k tasks
	old, now := sleeper(t, "077"), sleeper(t, "022").Process.Pid
	gone := old.Process.Pid
	wantUmask(t, &k, gone, 0o077)
	_ = old.Process.Kill()
	_ = old.Wait()
	if _, e := k.umask(gone); e != unix.ESRCH {
		t.Errorf("asking for a process that is gone: %v, want ESRCH", e)
	}

	// What is remembered under the number of the living one is another process.
	old = sleeper(t, "077")
	wantUmask(t, &k, old.Process.Pid, 0o077)
	entry := &k.recent[old.Process.Pid%recentTasks]
	stale := *entry
	*entry = task{}
	stale.tid = now
	k.recent[now%recentTasks] = stale
	_ = old.Process.Kill()
	_ = old.Wait()
	wantUmask(t, &k, now, 0o022)

	fd, err := k.open(now, unix.AT_FDCWD, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if cwd, err := unix.Open("/proc/"+strconv.Itoa(now)+"/cwd", unix.O_PATH, 0); err != nil || identity(t, cwd) != identity(t, fd) {
		t.Errorf("the working directory is another one (%v)", err)
	}
}

func identity(t *testing.T, fd int) object {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return object{st.Dev, st.Ino}
}

func TestParseUmask(t *testing.T) {
	for text, want := range map[string]int{"Name:\tx\nUmask:\t0022\nState:\tR\n": 0o022, "Name:\tx\nUmask:\t0777\n": 0o777} {
		if got, err := parseUmask([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %#o, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Umask:\t0022\n", "Name:\tx\nUmask:\t9\n", "Name:\tx\nUmask:\t0022"} {
		if got, err := parseUmask([]byte(text)); err == nil {
			t.Errorf("%q: %#o", text, got)
		}
	}
}
