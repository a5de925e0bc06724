package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// tree is a directory that looks like a mount of cgroup version 2: "/s" is a
// slice of the caller with the named controllers enabled, "/s/own" its cgroup.
func tree(t *testing.T, controllers string) hierarchy {
	t.Helper()
	mount := t.TempDir()
	mkdir := func(dir string, mode os.FileMode) error {
		err := os.Mkdir(dir, mode)
		for name, text := range map[string]string{
			"cgroup.procs": "", "cgroup.subtree_control": "", "memory.max": "", "memory.high": "max\n", "memory.swap.max": "", "pids.max": "",
			"cpu.max": "max 100000\n", "cpuset.cpus": "\n", "io.max": "", "memory.events": "low 0\noom 0\noom_kill 0\n", "pids.events": "max 0\n",
		} {
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
			}
		}
		return err
	}
	for _, dir := range []string{"s", "s/own"} {
		if err := mkdir(filepath.Join(mount, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := hierarchy{mount: mount, own: "/s/own", mkdir: mkdir}
	h.write(t, "s/cgroup.subtree_control", controllers)
	return h
}

func (h hierarchy) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.mount, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, g *group, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

var bothLimits = config.Limits{Memory: 1 << 30, Processes: 50}

func TestGroup(t *testing.T) {
	h := tree(t, "cpu memory pids\n")
	g, err := h.newGroup(bothLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	if filepath.Dir(g.dir) != filepath.Join(h.mount, "s") {
		t.Errorf("made in %s", g.dir)
	}
	for file, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "50"} {
		if got := content(t, g, file); got != want {
			t.Errorf("%s holds %q", file, got)
		}
	}
	if _, err := g.procs.WriteString("17"); err != nil || content(t, g, "cgroup.procs") != "17" {
		t.Errorf("the door: %v", err)
	}
	if e := g.events(); e != (groupEvents{}) {
		t.Errorf("%+v before anything happened", e)
	}
	rel := strings.TrimPrefix(g.dir, h.mount)
	h.write(t, rel+"/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
	if e := g.events(); e != (groupEvents{outOfMemory: true}) {
		t.Errorf("%+v", e)
	}
	h.write(t, rel+"/pids.events", "max 4\n")
	if e := g.events(); e != (groupEvents{outOfMemory: true, forkRefused: true}) {
		t.Errorf("%+v", e)
	}
}

// A cgroup without processes of its own, or the root, can hold the new one.
func TestGroupBelow(t *testing.T) {
	h := tree(t, "")
	h.write(t, "s/own/cgroup.subtree_control", "memory pids")
	h.write(t, "s/own/memory.high", "5") // still holds there
	g, err := h.newGroup(bothLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	if filepath.Dir(g.dir) != filepath.Join(h.mount, "s/own") {
		t.Errorf("made in %s", g.dir)
	}
}

// Beside the caller's cgroup a command must not have more than in it.
func TestGroupInherits(t *testing.T) {
	h := tree(t, "memory pids")
	h.write(t, "s/own/memory.max", "4096\n")
	h.write(t, "s/own/pids.max", "70\n")
	g, err := h.newGroup(config.Limits{Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	if g.memory != 4096 || g.processes != 70 || content(t, g, "pids.max") != "70" {
		t.Errorf("%d bytes, %d processes", g.memory, g.processes)
	}
	p := &process{group: g}
	var said []string
	p.request.Limits = config.Limits{Memory: 1 << 30}
	p.request.Violation = func(v launch.Violation) { said = append(said, v.Rule) }
	h.write(t, strings.TrimPrefix(g.dir, h.mount)+"/memory.events", "oom_kill 1")
	h.write(t, strings.TrimPrefix(g.dir, h.mount)+"/pids.events", "max 1")
	p.reportLimits(launch.Status{Signal: 9}, 0)
	if len(said) != 0 {
		t.Errorf("limits of the caller are reported as those of the settings: %q", said)
	}
	g.memory, g.processes = 1<<30, 0
	p.reportLimits(launch.Status{Signal: 9}, 0)
	if fmt.Sprint(said) != "[limits.memory 1g]" {
		t.Errorf("%q", said)
	}
}

func TestGroupRefused(t *testing.T) {
	for want, change := range map[string]func(*testing.T, hierarchy){
		"the memory controller is not enabled in": func(t *testing.T, h hierarchy) { h.write(t, "s/cgroup.subtree_control", "pids") },
		"the pids controller is not enabled in":   func(t *testing.T, h hierarchy) { h.write(t, "s/cgroup.subtree_control", "memory") },
		"would lift its cpu.max":                  func(t *testing.T, h hierarchy) { h.write(t, "s/own/cpu.max", "5000 100000") },
		"would lift its cpuset.cpus":              func(t *testing.T, h hierarchy) { h.write(t, "s/own/cpuset.cpus", "0") },
		"is not this user's":                      func(t *testing.T, h hierarchy) { _ = os.Remove(filepath.Join(h.mount, "s/cgroup.procs")) },
	} {
		h := tree(t, "memory pids")
		change(t, h)
		g, err := h.newGroup(bothLimits)
		if err == nil {
			g.remove()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestHierarchyOf(t *testing.T) {
	const v1 = "30 25 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
	for name, c := range map[string]struct{ places, mounts, mount, own string }{
		"version 2 alone":       {"0::/user.slice/a.scope\n", "30 25 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup", "/user.slice/a.scope"},
		"both versions":         {"4:memory:/x\n0::/\n", v1 + "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n", "/sys/fs/cgroup/unified", "/"},
		"a part is mounted":     {"0::/docker/1/y\n", "31 25 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup", "/y"},
		"just its own":          {"0::/docker/1\n", "31 25 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup", "/"},
		"another part":          {"0::/docker/12\n", "31 25 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "", ""},
		"outside the namespace": {"0::/../other\n", "31 25 0:27 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "", ""},
		"version 1 only":        {"4:memory:/x\n", v1, "", ""},
	} {
		mount, own, err := hierarchyOf(c.places, c.mounts)
		if mount != c.mount || own != c.own || (err == nil) != (c.mount != "") {
			t.Errorf("%s: %q %q %v", name, mount, own, err)
		}
	}
}

// realGroup makes a cgroup without limits on this machine, which shows how the
// kernel treats one: the controllers may be missing.
func realGroup(t *testing.T) (hierarchy, *group) {
	t.Helper()
	h, err := findHierarchy()
	if err != nil {
		t.Skip(err)
	}
	g, err := h.newGroup(config.Limits{})
	if err != nil {
		t.Skip("this user may not make cgroups here: ", err)
	}
	t.Cleanup(g.remove)
	return h, g
}

// Only the command is in its cgroup, and nothing of it is left in the end.
func TestGroupOfCommand(t *testing.T) {
	_, g := realGroup(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := prepare(launch.Streams{Stdio: [3]*os.File{r, w, w}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cfg, dir := config.Default(), t.TempDir()
	pol, err := policy.Resolve(t.Context(), policy.Input{Config: cfg, Cwd: dir, Home: dir, UID: os.Geteuid(), FS: policy.OSFS()})
	if err != nil {
		t.Fatal(err)
	}
	p.group = g
	listeners, err := p.Build(context.Background(), launch.Request{
		Policy: pol, Path: "/bin/sh", Args: []string{"sh", "-c", "cat /proc/self/cgroup; sleep 31337 & read x"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir,
		Note: func(string) {}, Violation: func(launch.Violation) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range listeners {
		ln.Close()
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	for !strings.Contains(string(line), "0::") {
		if _, err := r.Read(line); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(line), filepath.Base(g.dir)) {
		t.Errorf("the command is in %q", line)
	}
	if members := content(t, g, "cgroup.procs"); members == "" || strings.Contains(members+"\n", strconv.Itoa(p.pid)+"\n") {
		t.Errorf("in the cgroup are %q; srt-init is %d", members, p.pid)
	}
	p.Close()
	p.group = nil
	if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
}

// A killed run leaves its cgroup to the next, which leaves those of living runs alone.
func TestGroupCollected(t *testing.T) {
	h, alive := realGroup(t)
	_, killed := realGroup(t)
	cmd := exec.Command("sleep", "31337")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // it is killed
	defer cmd.Process.Kill() //nolint:errcheck
	if _, err := killed.procs.WriteString(strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	killed.lock.Close() // as the kernel does when srt is killed
	collectGroups(filepath.Join(h.mount, h.own))
	collectGroups(filepath.Dir(killed.dir))
	if _, err := os.Stat(killed.dir); err != nil {
		t.Error("a cgroup that still has processes was removed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	testutil.Eventually(t, "the end of the cgroup of a killed run", func() bool { // the kernel may count a process for a moment more
		collectGroups(filepath.Dir(killed.dir))
		return unix.Access(killed.dir, unix.F_OK) == unix.ENOENT
	})
	if _, err := os.Stat(alive.dir); err != nil {
		t.Errorf("the cgroup of a living run was removed: %v", err)
	}
}
