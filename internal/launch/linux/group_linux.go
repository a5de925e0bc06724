package linux

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
)

// group is the cgroup (version 2) of one command. It holds the command and what
// it starts and nothing else: srt-init and its memory stay where srt is, so that
// the limits are exactly the command's and the kernel never picks srt-init when
// memory is short.
type group struct {
	dir   string
	lock  *os.File // its lock tells later runs that this one is alive
	procs *os.File
	// memory and processes are the limits in force, 0 for none.
	memory    config.Size
	processes int
}

// groupPrefix begins the names of srt's cgroups.
const groupPrefix = "srt-"

// hierarchy is the tree of cgroups and the caller's place in it.
type hierarchy struct {
	mount, own string
	mkdir      func(string, os.FileMode) error // [os.Mkdir] but in tests: the kernel fills a new directory
}

// findHierarchy reads where the caller is.
func findHierarchy() (hierarchy, error) {
	places, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return hierarchy{}, errNoGroup("reading the cgroup of srt: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchy{}, errNoGroup("reading the mounts: %w", err)
	}
	mount, own, err := hierarchyOf(string(places), string(mounts))
	return hierarchy{mount: mount, own: own, mkdir: os.Mkdir}, err
}

// hierarchyOf reads the two files of /proc. A mount may show only a part of the
// hierarchy.
func hierarchyOf(places, mounts string) (mount, own string, err error) {
	found := false
	for line := range strings.Lines(places) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own, found = path, true
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !found || len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		below, inside := strings.CutPrefix(own, strings.TrimSuffix(f[3], "/"))
		if inside && (below == "" || below[0] == '/') && !strings.HasPrefix(below, "/..") {
			return f[4], filepath.Clean("/" + below), nil
		}
	}
	return "", "", errNoGroup("no mount of cgroup version 2 shows the cgroup of srt")
}

// newGroup makes a cgroup below the caller's, or beside it: a cgroup that has
// processes of its own can have no limited ones below, unless it is the root.
func (h hierarchy) newGroup(l config.Limits) (*group, error) {
	home := filepath.Join(h.mount, h.own)
	g, err := h.makeGroup(home, l)
	if err != nil && h.own != "/" {
		g, err = h.makeGroup(filepath.Dir(home), l)
	}
	return g, err
}

// makeGroup makes a cgroup in base.
func (h hierarchy) makeGroup(base string, l config.Limits) (*group, error) {
	if err := usable(base, l); err != nil {
		return nil, err
	}
	g := &group{memory: l.Memory, processes: l.Processes}
	if home := filepath.Join(h.mount, h.own); base != home {
		// Beside the caller's cgroup its limits do not hold any more.
		if err := g.inherit(home); err != nil {
			return nil, err
		}
	}
	collectGroups(base)
	g.dir = filepath.Join(base, groupPrefix+rand.Text())
	if err := h.mkdir(g.dir, 0o755); err != nil {
		return nil, errNoGroup("%w", err)
	}
	if err := g.set(); err != nil {
		g.remove()
		return nil, errNoGroup("%w", err)
	}
	return g, nil
}

// usable reports why a cgroup cannot have limited ones of this user in it.
func usable(base string, l config.Limits) error {
	enabled, err := os.ReadFile(filepath.Join(base, "cgroup.subtree_control"))
	if err != nil {
		return errNoGroup("%w", err)
	}
	controllers := strings.Fields(string(enabled))
	for name, wanted := range map[string]bool{"memory": l.Memory != 0, "pids": l.Processes != 0} {
		if wanted && !slices.Contains(controllers, name) {
			return errNoGroup("the %s controller is not enabled in %s", name, base)
		}
	}
	// Who moves a process must be able to write in the cgroup above both places.
	if err := unix.Access(filepath.Join(base, "cgroup.procs"), unix.W_OK); err != nil {
		return errNoGroup("%s is not this user's: %w", base, err)
	}
	return nil
}

// otherLimits are those of a cgroup that have no counterpart in the settings.
var otherLimits = []string{"memory.high", "memory.swap.high", "memory.zswap.max", "cpu.max", "cpuset.cpus", "cpuset.mems", "io.max"}

// inherit lowers the limits to those of the caller's cgroup. A cgroup that limits
// in other ways is not left.
func (g *group) inherit(home string) error {
	for _, file := range otherLimits {
		data, err := os.ReadFile(filepath.Join(home, file))
		text := strings.TrimSpace(string(data))
		if err == nil && text != "" && !strings.HasPrefix(text, "max") {
			return errNoGroup("leaving %s would lift its %s", home, file)
		}
	}
	if n := readLimit(home, "memory.max"); n < math.MaxInt64 && (g.memory == 0 || n < int64(g.memory)) {
		g.memory = config.Size(n)
	}
	if n := readLimit(home, "pids.max"); n < math.MaxInt32 && (g.processes == 0 || int(n) < g.processes) {
		g.processes = int(n)
	}
	return nil
}

// readLimit reads a file that holds a number or "max".
func readLimit(dir, file string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if n, bad := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && bad == nil {
		return n
	}
	return math.MaxInt64
}

// set locks the new cgroup, writes its limits and opens its door.
func (g *group) set() error {
	if err := g.lockDir(); err != nil {
		return err
	}
	if g.memory != 0 {
		if err := g.write("memory.max", strconv.FormatInt(int64(g.memory), 10)); err != nil {
			return err
		}
		// Memory on disk is memory. Kernels may count no swap at all.
		if err := g.write("memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if g.processes != 0 {
		if err := g.write("pids.max", strconv.Itoa(g.processes)); err != nil {
			return err
		}
	}
	var err error
	g.procs, err = os.OpenFile(filepath.Join(g.dir, "cgroup.procs"), os.O_WRONLY, 0)
	return err
}

func (g *group) lockDir() error {
	f, err := os.Open(g.dir)
	if err != nil {
		return err
	}
	g.lock = f
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("locking %s: %w", g.dir, err)
	}
	if _, err := os.Lstat(g.dir); err != nil {
		return errGone // a later run took it for a dead one's before it was locked
	}
	return nil
}

func (g *group) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// groupEvents is what a cgroup counted.
type groupEvents struct{ outOfMemory, forkRefused bool }

func (g *group) events() groupEvents {
	return groupEvents{
		outOfMemory: readEvent(filepath.Join(g.dir, "memory.events"), "oom_kill") > 0,
		forkRefused: readEvent(filepath.Join(g.dir, "pids.events"), "max") > 0,
	}
}

func readEvent(file, name string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}

// remove takes the cgroup away. As a rule its processes are gone, though the
// kernel may still be busy with the last one.
func (g *group) remove() {
	if g == nil {
		return
	}
	if g.procs != nil {
		g.procs.Close()
	}
	for range 50 {
		if !errors.Is(unix.Rmdir(g.dir), unix.EBUSY) {
			break
		}
		_ = g.write("cgroup.kill", "1") // Linux 5.14; what srt-init could not kill before it was killed
		time.Sleep(2 * time.Millisecond)
	}
	if g.lock != nil {
		g.lock.Close()
	}
}

// collectGroups removes what runs left behind that were killed: their cgroups
// are empty and not locked.
func collectGroups(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), groupPrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = unix.Rmdir(dir)
		}
		f.Close()
	}
}
