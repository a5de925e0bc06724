package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// technique is one way out that a command may try. It returns nil when the
// attempt succeeded.
type technique struct {
	name string
	try  func() error
}

// techniques are tried from inside a sandbox by the script command "attack",
// grouped by the property that they attack.
var techniques = []technique{
	{"namespaces: unshare user", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	{"namespaces: unshare mount", func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
	{"namespaces: unshare net", func() error { return unix.Unshare(unix.CLONE_NEWNET) }},
	{"namespaces: unshare pid", func() error { return unix.Unshare(unix.CLONE_NEWPID) }},
	{"namespaces: clone user", func() error { return cloneWith(unix.CLONE_NEWUSER) }},
	{"namespaces: clone user, high bits", func() error { return cloneWith(0xdead<<32 | unix.CLONE_NEWUSER) }},
	{"namespaces: clone3", func() error { return call(unix.SYS_CLONE3, 0, 0) }},
	{"namespaces: setns of process 1", func() error { return joinNamespace("/proc/1/ns/mnt") }},
	{"namespaces: setns of itself", func() error { return joinNamespace("/proc/self/ns/net") }},
	{"mounts: mount tmpfs", func() error { return unix.Mount("x", "/tmp", "tmpfs", 0, "") }},
	{"mounts: remount writable", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	{"mounts: umount", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
	{"mounts: pivot_root", func() error { return unix.PivotRoot("/", "/") }},
	{"mounts: open_tree", func() error {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		return err
	}},
	{"mounts: fsopen", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }},
	{"mounts: mount_setattr", func() error {
		return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	}},
	{"mounts: chroot", func() error { return unix.Chroot("/tmp") }},
	{"processes: trace process 1", func() error { return unix.PtraceAttach(1) }},
	{"processes: memory of process 1", func() error { return open("/proc/1/mem", unix.O_RDWR) }},
	{"processes: memory of process 1, creating", func() error { return open("/proc/1/mem", unix.O_RDWR|unix.O_CREAT) }},
	{"processes: memory of process 1 through self", func() error { return open("/proc/self/root/proc/1/mem", unix.O_RDWR|unix.O_CREAT) }},
	{"processes: memory of process 1 by directory", func() error { return openBelow("/proc/1", "mem") }},
	{"processes: memory of a thread of process 1", threadMemory},
	{"processes: environment of process 1", func() error { return open("/proc/1/environ", unix.O_RDONLY) }},
	{"processes: descriptors of process 1", func() error { _, err := os.Readlink("/proc/1/fd/3"); return err }},
	{"processes: descriptor of process 1, creating", func() error { return open("/proc/1/fd/3", unix.O_RDWR|unix.O_CREAT) }},
	{"processes: root of process 1", func() error { return open("/proc/1/root", unix.O_RDONLY) }},
	{"processes: kill process 1", func() error { return unix.Kill(1, unix.SIGKILL) }},
	{"processes: crash process 1", func() error { return unix.Kill(1, unix.SIGSEGV) }},
	{"processes: descriptor taken from process 1", takeDescriptor},
	{"processes: read memory of process 1", readInit},
	{"kernel: keyring", func() error { return call(unix.SYS_KEYCTL, 0, 0xfffffffd) }},
	{"kernel: add_key", func() error { return call(unix.SYS_ADD_KEY, 0, 0) }},
	{"kernel: bpf", func() error { return call(unix.SYS_BPF, 0, 0) }},
	{"kernel: perf_event_open", func() error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0) }},
	{"kernel: userfaultfd", func() error { return call(unix.SYS_USERFAULTFD, 0, 0) }},
	{"kernel: io_uring", func() error { return call(unix.SYS_IO_URING_SETUP, 8, 0) }},
	{"kernel: open_by_handle_at", func() error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0) }},
	{"kernel: core pattern", func() error { return open("/proc/sys/kernel/core_pattern", unix.O_WRONLY) }},
	{"kernel: host name file", func() error { return open("/proc/sys/kernel/hostname", unix.O_WRONLY) }},
	{"kernel: sysrq", func() error { return open("/proc/sysrq-trigger", unix.O_WRONLY) }},
	{"kernel: namespace limit", func() error { return open("/proc/sys/user/max_user_namespaces", unix.O_WRONLY) }},
	{"kernel: host name", func() error { return unix.Sethostname([]byte("x")) }},
	{"kernel: device node", func() error { return unix.Mknod("dev", unix.S_IFBLK|0o600, 0) }},
	{"kernel: mode of a device of the host", func() error { return unix.Chmod("/dev/null", 0o666) }},
	{"kernel: times of a device of the host", func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, "/dev/zero", nil, 0) }},
	{"kernel: kmsg", func() error { return open("/dev/kmsg", unix.O_RDONLY) }},
	{"sockets: unix raw", func() error { return socket(unix.AF_UNIX, unix.SOCK_RAW, 0) }},
	{"sockets: raw pair taken apart", func() error { return takeApart(unix.SOCK_RAW) }},
	{"sockets: unix datagram", func() error { return socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0) }},
	{"sockets: datagram pair taken apart", func() error { return takeApart(unix.SOCK_DGRAM) }},
	{"sockets: vsock", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"sockets: packet", func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{"sockets: raw", func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"sockets: netfilter", func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) }},
	{"sockets: crypto", func() error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	{"sockets: privileged port", bindPrivileged},
	{"network: other address", connectOut},
	{"privileges: set-user-id", func() error { return unix.Setuid(12345) }},
	{"privileges: groups", func() error { return unix.Setgroups([]int{0}) }},
	{"privileges: capability", raiseCapability},
	{"limits: raise the own", func() error { return raiseLimit(0, 1) }},
	{"limits: lower those of process 1", func() error { return raiseLimit(1, -1) }},
	{"limits: lower those of a thread of process 1", lowerThread},
	{"limits: an address that looks like none", lowerByAddress},
	{"files: /etc", func() error { return open("/etc/srt-attack", unix.O_WRONLY|unix.O_CREAT) }},
	{"files: protected name", func() error { return open(".bashrc", unix.O_WRONLY|unix.O_CREAT) }},
	{"files: protected name through self", func() error { return open("/proc/self/cwd/.bashrc", unix.O_WRONLY|unix.O_CREAT) }},
	{"files: protected name through a thread", func() error { return open("/proc/thread-self/cwd/.bashrc", unix.O_WRONLY|unix.O_CREAT) }},
	{"files: protected name through a dangling link", danglingLink},
	{"files: protected name by rename", renameOver},
	{"files: protected name by exchange", exchange},
	{"files: protected name by hard link", hardLink},
	{"files: protected name by openat2", func() error {
		_, err := unix.Openat2(unix.AT_FDCWD, ".bashrc", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o600})
		return err
	}},
	{"files: protected name by a race", raceName},
}

func call(nr uintptr, a, b uint64) error {
	_, _, e := unix.Syscall6(nr, uintptr(a), uintptr(b), 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// cloneWith asks for a process with namespaces of its own; a child ends at once.
func cloneWith(flags uint64) error {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(flags|uint64(unix.SIGCHLD)), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	return nil
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func openBelow(dir, name string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	_, err = unix.Openat(fd, name, unix.O_RDWR|unix.O_CREAT, 0)
	return err
}

func threadMemory() error {
	tasks, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	first := errors.New("process 1 has no threads")
	for _, t := range tasks {
		for _, p := range []string{"/proc/1/task/" + t.Name() + "/mem", "/proc/" + t.Name() + "/mem"} {
			if first = open(p, unix.O_RDWR|unix.O_CREAT); first == nil {
				return nil
			}
		}
	}
	return first
}

func joinNamespace(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, 0)
}

func takeDescriptor() error {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(pidfd, 3, 0)
	return err
}

func readInit() error {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return err
}

func socket(family, kind, protocol int) error {
	_, err := unix.Socket(family, kind, protocol)
	return err
}

func bindPrivileged() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{127, 0, 0, 1}})
}

// connectOut uses a documentation address (RFC 5737) that no host has.
func connectOut() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}})
	if errors.Is(err, unix.EINPROGRESS) {
		return nil
	}
	return err
}

func raiseCapability() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	return unix.Capset(&header, &data[0])
}

func danglingLink() error {
	_ = os.Remove("dangling")
	if err := os.Symlink(".bashrc", "dangling"); err != nil {
		return err
	}
	defer os.Remove("dangling")
	return open("dangling", unix.O_WRONLY|unix.O_CREAT)
}

func scratch() (string, error) {
	f, err := os.CreateTemp(".", "scratch")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

func renameOver() error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return os.Rename(name, ".bashrc")
}

func exchange() error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return unix.Renameat2(unix.AT_FDCWD, ".bashrc", unix.AT_FDCWD, name, unix.RENAME_EXCHANGE)
}

func hardLink() error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return os.Link(name, ".bashrc")
}

// raceName changes the path under the eyes of whoever checks it: threads call
// while others flip the text between a harmless and a protected name.
func raceName() error {
	harmless, protected := [8]byte{'.', 'b', 'a', 's', 'h', 'r', 'x'}, [8]byte{'.', 'b', 'a', 's', 'h', 'r', 'c'}
	var path atomic.Uint64 // the text itself, exchanged as one word
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					path.Store(*(*uint64)(unsafe.Pointer(&harmless)))
					path.Store(*(*uint64)(unsafe.Pointer(&protected)))
				}
			}
		})
	}
	end := time.Now().Add(1500 * time.Millisecond)
	for time.Now().Before(end) {
		cwd := unix.AT_FDCWD
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), unix.O_CREAT|unix.O_WRONLY, 0o600, 0, 0)
		if e == 0 {
			unix.Close(int(fd))
		}
		_, _, _ = unix.Syscall(unix.SYS_MKDIRAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), 0o700)
		_ = unix.Rmdir(".bashrx")
		_ = unix.Unlink(".bashrx")
		if unix.Access(".bashrc", unix.F_OK) == nil {
			close(stop)
			wait.Wait()
			return nil
		}
	}
	close(stop)
	wait.Wait()
	return unix.EPERM
}

// attack tries the techniques of this file, or those of all files whose names
// begin as the arguments do, and prints what came of it.
func attack() {
	if len(os.Args) > 1 && attackAlone(os.Args[1]) {
		return
	}
	all := slices.Concat(techniques, terminalTechniques())
	if len(os.Args) > 1 {
		all = slices.Concat(all, fileTechniques, nameTechniques, metadataTechniques, readTechniques, processTechniques, kernelTechniques, socketTechniques, raceTechniques, standingTechniques, repositoryMakers)
	}
	for _, a := range all {
		begins := func(start string) bool { return strings.HasPrefix(a.name, start) }
		if len(os.Args) > 1 && !slices.ContainsFunc(os.Args[1:], begins) {
			continue
		}
		freshTree()
		if err := a.try(); err != nil {
			fmt.Printf("%s: refused (%v)\n", a.name, err)
		} else {
			fmt.Printf("%s: SUCCEEDED\n", a.name)
		}
	}
}

// users are the user numbers that tests run as.
func users() []int {
	if os.Getuid() == 0 {
		return []int{0, ordinaryUser}
	}
	return []int{os.Getuid()}
}

// sandboxed prepares the built srt in a directory of the user's own.
type sandboxed struct {
	t                      *testing.T
	binary, dir, home, tmp string
	settings               string
	uid                    int
}

func newSandboxed(t *testing.T, uid int, settings string) *sandboxed {
	t.Helper()
	root := openTempDir(t)
	s := &sandboxed{t: t, uid: uid, binary: filepath.Join(root, "srt"), dir: filepath.Join(root, "w"), home: filepath.Join(root, "home"), tmp: filepath.Join(root, "tmp"), settings: filepath.Join(root, "settings.json")}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is srt when it is called by that name. A process started
	// meanwhile by another test would hold the file open and keep it from running.
	syscall.ForkLock.RLock()
	err = os.WriteFile(s.binary, data, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{s.dir, s.home, s.tmp} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(d, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(s.settings, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sandboxed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, append([]string{"--settings", s.settings}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.home, "TMPDIR=" + s.tmp, "GORACE=" + os.Getenv("GORACE")}
	if os.Getuid() == 0 && s.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	return cmd
}

// leftovers lists what a run should have taken away.
func (s *sandboxed) leftovers() []string {
	var all []string
	for _, d := range []string{s.dir, s.tmp} {
		entries, err := os.ReadDir(d)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, filepath.Join(d, e.Name()))
		}
	}
	return all
}

func mountCount(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

const workSettings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":["later.cfg"]}}`

// Killing srt at any moment leaves no process, mount or file.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) { killAtAnyMoment(t, uid, workSettings) })
	}
}

func killAtAnyMoment(t *testing.T, uid int, settings string) {
	s := newSandboxed(t, uid, settings)
	before := mountCount(t)
	mark := fmt.Sprintf("sleep 31337.%d", uid+7)
	for _, delay := range []time.Duration{0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 25, 60} {
		cmd := s.command("-c", "touch $TMPDIR/x; "+mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	deadline := time.Now().Add(3 * time.Second)
	for len(s.leftovers()) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	// A directory whose run was killed before srt-init knew of it waits
	// for the next run.
	if out, err := s.command("true").CombinedOutput(); err != nil {
		t.Fatalf("the next run: %v %s", err, out)
	}
	if left := s.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for _, text := range []string{mark, s.binary} {
		if pid := processWith(t, text); pid != "" {
			t.Errorf("process %s is left", pid)
		}
	}
	if pid := processOf(s.binary); pid != "" {
		t.Errorf("process %s is left", pid)
	}
	if after := mountCount(t); after != before {
		t.Errorf("%d mounts before, %d after", before, after)
	}
}

// processOf returns a process that executes the binary, whatever it calls
// itself, or is about to: bwrap holds it as a descriptor.
func processOf(binary string) string {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found := ""
		for _, link := range []string{"exe", "fd/6"} {
			links, _ := filepath.Glob("/proc/[0-9]*/" + link)
			for _, name := range links {
				if target, err := os.Readlink(name); err == nil && target == binary {
					found = name
				}
			}
		}
		if found == "" || time.Now().After(end) {
			return found
		}
	}
}

func processWith(t *testing.T, text string) string {
	t.Helper()
	deadline := time.Now().Add(2 * time.Second)
	for {
		found := ""
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			line, err := os.ReadFile(name)
			if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
				found = name
			}
		}
		if found == "" || time.Now().After(deadline) {
			return found
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Two hundred runs in one directory at the same time are all correct.
func TestParallelRuns(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			slots := make(chan struct{}, 16)
			var wait sync.WaitGroup
			for i := range 200 {
				slots <- struct{}{}
				wait.Go(func() {
					defer func() { <-slots }()
					out, err := s.command("-c", fmt.Sprintf("echo r%d > f%d; cat f%d; rm f%d; echo x > later.cfg; echo x > .bashrc; exit %d", i, i, i, i, i%7)).Output()
					status, said := 0, ""
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						status, said = exit.ExitCode(), string(exit.Stderr)
					} else if err != nil {
						t.Error(err)
					}
					if string(out) != fmt.Sprintf("r%d\n", i) || status != i%7 {
						t.Errorf("run %d: %q, status %d, %v: %s", i, out, status, err, said)
					}
				})
			}
			wait.Wait()
			if left := s.leftovers(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}
