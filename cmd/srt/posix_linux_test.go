package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// The conformance test makes every call that srt-init performs for a command,
// with every spelling of a path, once outside and once inside a sandbox, on
// equal trees. Each call prints one line; the two outputs must be the same.

const posixSettings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`

func TestPosix(t *testing.T) {
	for _, uid := range users() {
		outside := newSandboxed(t, uid, posixSettings).posix(t, nil)
		for _, backend := range append(slices.Clone(mountBackends), config.BackendLandlock) {
			t.Run(fmt.Sprint(backend, "/uid", uid), func(t *testing.T) {
				t.Parallel()
				needBackend(t, backend)
				if backend == config.BackendLandlock && inside.LandlockABI() == 0 {
					t.Skip("this kernel has no Landlock")
				}
				s := newSandboxed(t, uid, withLinux(posixSettings, backend, ""))
				compareLines(t, backend, outside, s.posix(t, []string{s.binary, "--settings", s.settings, "--violations", "never"}))
			})
		}
	}
}

// posix runs the program of the same name behind a prefix.
func (s *sandboxed) posix(t *testing.T, prefix []string) []string {
	t.Helper()
	s.prepareACL(t)
	args := append(slices.Clone(prefix), s.binaryCalled("posix"))
	cmd := s.command()
	cmd.Path, cmd.Args = args[0], args
	var errs bytes.Buffer
	cmd.Stderr = &errs
	for _, name := range []string{"POSIX_ALL", "POSIX_ONLY"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	start := time.Now()
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("the conformance program: %v\n%s\nafter %s", err, errs.String(), lastLine(out))
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Logf("%d calls in %v", len(lines), time.Since(start).Round(time.Millisecond))
	return lines
}

// prepareACL makes a directory with a default ACL, under which the kernel
// ignores the caller's file mode mask.
func (s *sandboxed) prepareACL(t *testing.T) {
	dir := filepath.Join(s.dir, "acl")
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	_ = os.Chown(dir, s.uid, s.uid)
	// struct posix_acl_xattr_header and entries: version 2; tag, permissions, id.
	list := []byte{2, 0, 0, 0}
	for _, e := range [][2]byte{{1, 7}, {4, 6}, {32, 4}} {
		list = append(list, e[0], 0, e[1], 0, 0xff, 0xff, 0xff, 0xff)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_default", list, 0); err != nil {
		t.Logf("no default ACL: %v", err)
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

func compareLines(t *testing.T, backend string, outside, inside []string) {
	t.Helper()
	differences := 0
	for i := range min(len(outside), len(inside)) {
		if outside[i] == inside[i] || backend == config.BackendLandlock && refusedInstead(outside[i], inside[i]) {
			continue
		}
		if differences++; differences <= 40 || os.Getenv("POSIX_ALL") != "" {
			t.Errorf("outside %s\ninside  %s", outside[i], inside[i])
		}
	}
	if differences > 0 || len(outside) != len(inside) {
		t.Errorf("%d lines differ; %d outside, %d inside", differences, len(outside), len(inside))
	}
}

// refusedInstead reports whether a call that fails anyway is refused by the
// settings, which is what comes first under the Landlock backend: it knows places
// that no command may change, and directories that have no name any more.
func refusedInstead(outside, inside string) bool {
	if strings.HasPrefix(outside, "socket ") {
		return true // it has few kinds of sockets and connects to the proxies only
	}
	if strings.HasPrefix(outside, "working directory removed: ") || strings.HasPrefix(outside, "removed directory as a base: ") {
		return true
	}
	call, failure, _ := strings.Cut(outside, ": E")
	_, after, _ := strings.Cut(inside, call+": ")
	return failure != "" && slices.Contains([]string{"EPERM", "EACCES", "EPERMEPERM", "ENOENTEPERM", "EPERMEEXIST"}, after)
}

// posix is the program. It works in a directory of its own below the current one.
func posix() {
	if err := runPosix(); err != nil {
		fmt.Fprintln(os.Stderr, "posix:", err)
		os.Exit(1)
	}
}

// posixRun is one run of the conformance program.
type posixRun struct {
	root string // the tree that calls may change
	want string // what the tree looks like before each call
	fds  map[string]int
	// some leaves calls out, by their count.
	some  bool
	count int
	out   *bytes.Buffer
}

func runPosix() error {
	// The comparison is between two callers without privileges.
	runtime.LockOSThread()
	if err := withoutPrivileges(); err != nil {
		return err
	}
	unix.Umask(0o022)
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	r := &posixRun{root: filepath.Join(top, "tree"), fds: map[string]int{}, out: &bytes.Buffer{}, some: os.Getenv("POSIX_ALL") == ""}
	defer os.RemoveAll(r.root)
	chains := filepath.Join(top, "chains")
	defer os.RemoveAll(chains)
	if err := makeChain(chains); err != nil {
		return err
	}
	if err := r.rebuild(); err != nil {
		return err
	}
	only := os.Getenv("POSIX_ONLY")
	for _, part := range []struct {
		name string
		run  func() error
	}{{"one", r.onePath}, {"two", r.twoPaths}, {"fds", r.directories}, {"memory", r.memory}, {"sockets", r.sockets}, {"states", r.states}, {"random", r.random}} {
		if only != "" && only != part.name {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	r.makeRemovable()
	_, err = os.Stdout.Write(r.out.Bytes())
	return err
}

// withoutPrivileges makes root an ordinary owner of its files, as it is inside.
func withoutPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capset(&header, &data[0])
}

// posixTree is what the calls meet. A name that ends in a slash is a directory,
// the text of others tells what they are.
var posixTree = [][2]string{
	{"file", "content"}, {"closed", "content"}, {"dir/", ""}, {"dir/file", "inner"}, {"dir/sub/", ""}, {"empty/", ""},
	{"readonly/", ""}, {"readonly/file", "x"}, {"nosearch/", ""}, {"nosearch/file", "x"}, {"group/", ""}, {"sticky/", ""},
	{"link", "-> file"}, {"dirlink", "-> dir"}, {"dangling", "-> missing"}, {"deepdangling", "-> nowhere/missing"}, {"loop", "-> loop"},
	{"linklink", "-> link"}, {"uplink", "-> dir/.."}, {"slashlink", "-> dir/"}, {"fileslash", "-> file/"}, {"newslash", "-> absent/"},
	{"proclink", "-> /proc/self/cwd/file"}, {"dir/back", "-> ../file"}, {"dir/new", "-> ../created"}, {"pipe", "|"}, {"socket", "="},
}

var posixModes = map[string]uint32{"closed": 0, "readonly/": 0o555, "nosearch/": 0o644, "group/": 0o2775, "sticky/": 0o1777}

const posixChain = 41 // links in a row, one more than the kernel follows

// makeChain makes links that lead to each other and in the end to a file.
func makeChain(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	target := "../tree/file"
	for i := range posixChain {
		if err := os.Symlink(target, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return err
		}
		target = fmt.Sprint(i)
	}
	return nil
}

// rebuild makes the tree anew and enters it.
func (r *posixRun) rebuild() error {
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	r.makeRemovable()
	if err := os.RemoveAll(r.root); err != nil {
		return err
	}
	if err := os.Mkdir(r.root, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(r.root); err != nil {
		return err
	}
	for _, entry := range posixTree {
		if err := makeEntry(entry[0], entry[1]); err != nil {
			return fmt.Errorf("making %s: %w", entry[0], err)
		}
	}
	for name, mode := range posixModes {
		if err := unix.Chmod(name, mode); err != nil {
			return err
		}
	}
	r.want = listTree(r.root)
	return r.openFixed()
}

func makeEntry(name, text string) error {
	switch {
	case strings.HasSuffix(name, "/"):
		return os.Mkdir(name, 0o755)
	case strings.HasPrefix(text, "-> "):
		return os.Symlink(text[3:], name)
	case text == "|":
		return unix.Mkfifo(name, 0o644)
	case text == "=":
		return unix.Mknod(name, unix.S_IFSOCK|0o644, 0)
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// makeRemovable gives the owner back what removing the tree needs.
func (r *posixRun) makeRemovable() {
	_ = os.Chmod(r.root, 0o755)
	_ = filepath.WalkDir(r.root, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o755)
		}
		return nil
	})
	_ = filepath.WalkDir(r.root, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o755)
		}
		return nil
	})
}

// openFixed opens the descriptors that calls use as directories. The pipe has
// both ends, so that no open of it waits.
func (r *posixRun) openFixed() error {
	for name, flags := range map[string]int{"dir": unix.O_RDONLY, "dir:path": unix.O_PATH, "file": unix.O_RDWR, "file:path": unix.O_PATH,
		"pipe": unix.O_RDWR, "link:path": unix.O_PATH | unix.O_NOFOLLOW, "/proc": unix.O_RDONLY, "/proc/self": unix.O_RDONLY, "readonly": unix.O_PATH, "nosearch": unix.O_PATH} {
		path, _, _ := strings.Cut(name, ":")
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s: %w", path, err)
		}
		r.fds[name] = fd
	}
	return nil
}

// listTree describes all that is below a directory.
func listTree(root string) string {
	var b strings.Builder
	_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		var st unix.Stat_t
		if e := unix.Lstat(p, &st); e != nil {
			fmt.Fprintf(&b, "%s:%v ", p[len(root):], e)
			return nil
		}
		size := st.Size
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			size = 0 // means something else on each file system
		}
		target, _ := os.Readlink(p)
		fmt.Fprintf(&b, "%s:%o:%d:%d%s ", p[len(root):], st.Mode, st.Nlink, size, target)
		return nil
	})
	return b.String()
}

// do makes one call on a fresh tree and prints what came of it. Without
// $POSIX_ALL only some calls are made, always the same.
func (r *posixRun) do(name string, call func() string) error {
	step := 17
	if raceEnabled { // several times as slow
		step = 101
	}
	if r.count++; r.count%step != 0 && r.some {
		return nil
	}
	result := call()
	now := listTree(r.root)
	change := ""
	if now != r.want {
		change = " TREE " + treeDifference(r.want, now)
		if err := r.rebuild(); err != nil {
			return fmt.Errorf("after %s: %w", name, err)
		}
	}
	r.print(name, result+change)
	return nil
}

// print leaves out what differs between any two runs.
func (r *posixRun) print(name, result string) {
	line := strings.ReplaceAll(name+": "+result, r.root, "$ROOT")
	fmt.Fprintln(r.out, strings.ReplaceAll(line, "\n", " "))
}

func treeDifference(before, after string) string {
	old, now := strings.Fields(before), strings.Fields(after)
	var parts []string
	for _, e := range now {
		if !slices.Contains(old, e) {
			parts = append(parts, "+"+e)
		}
	}
	for _, e := range old {
		if !slices.Contains(now, e) {
			parts = append(parts, "-"+e)
		}
	}
	return strings.Join(parts, " ")
}

// errorName is what a call came to.
func errorName(err error) string {
	if e, ok := err.(syscall.Errno); ok {
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
		return fmt.Sprint("errno ", int(e))
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}
