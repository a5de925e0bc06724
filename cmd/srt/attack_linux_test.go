package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
		all = slices.Concat(all, fileTechniques, nameTechniques, metadataTechniques, readTechniques, processTechniques, kernelTechniques, socketTechniques, raceTechniques, standingTechniques, replacedTechniques, concealedTechniques, closedTechniques, lockFileTechniques, repositoryMakers, nestedTechniques)
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
