package inside

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// run interprets a seccomp program for one call, as the kernel does.
func run(t *testing.T, prog []unix.SockFilter, arch uint32, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[0:], nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d has the unknown code %#x", pc, in.Code)
		}
	}
	t.Fatal("the program ends without a verdict")
	return 0
}

func TestFilterVerdicts(t *testing.T) {
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		notify = unix.SECCOMP_RET_USER_NOTIF
		high   = 0xdead_beef_0000_0000 // bits above the argument's width
	)
	eperm, enosys := errno(unix.EPERM), errno(unix.ENOSYS)
	plain := FilterOptions{Guard: true}
	for _, c := range []struct {
		name string
		o    FilterOptions
		nr   uintptr
		args []uint64
		want uint32
	}{
		{"linux 101 clone of a thread", plain, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"linux 101 clone with a user namespace", plain, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | 17}, eperm},
		{"linux 101 clone with a mount namespace", plain, unix.SYS_CLONE, []uint64{high | unix.CLONE_NEWNS}, eperm},
		{"clone with a network namespace", plain, unix.SYS_CLONE, []uint64{unix.CLONE_NEWNET}, eperm},
		{"linux 101 unshare with garbage above", plain, unix.SYS_UNSHARE, []uint64{high | unix.CLONE_NEWUSER}, eperm},
		{"unshare of a time namespace", plain, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, eperm},
		{"unshare with an empty mount namespace", plain, unix.SYS_UNSHARE, []uint64{unshareEmptyMounts}, eperm},
		{"unshare of the file table", plain, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, allow},
		{"linux 100 clone3", plain, unix.SYS_CLONE3, nil, enosys},
		{"linux 100 mount", plain, unix.SYS_MOUNT, nil, eperm},
		{"linux 100 open_tree_attr", plain, sysOpenTreeAttr, nil, eperm},
		{"linux 100 setns", plain, unix.SYS_SETNS, nil, eperm},
		{"linux 103 nested: unshare", FilterOptions{NestedNamespaces: true}, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWUSER}, allow},
		{"linux 103 nested: mount", FilterOptions{NestedNamespaces: true}, unix.SYS_MOUNT, nil, allow},
		{"unix stream socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"unix packet socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
		{"linux 98 unix datagram socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, notify},
		{"linux 98 unix raw socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, notify},
		{"connect", plain, unix.SYS_CONNECT, nil, notify},
		{"bind", plain, unix.SYS_BIND, nil, notify},
		{"connect with all sockets allowed", FilterOptions{UnixSockets: true}, unix.SYS_CONNECT, nil, allow},
		{"linux 98 unix socket with garbage above", plain, unix.SYS_SOCKET, []uint64{high | unix.AF_UNIX, unix.SOCK_DGRAM}, notify},
		{"linux 98 vsock", plain, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eperm},
		{"linux 98 inet", plain, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, allow},
		{"linux 98 inet6", plain, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, allow},
		{"linux 98 route netlink", plain, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"netfilter netlink", plain, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, eperm},
		{"packet socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}, eperm},
		{"kernel crypto socket", plain, unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, eperm},
		{"linux 98 stream pair", plain, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"raw pair, which is a datagram pair", plain, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, notify},
		{"pair of another family", FilterOptions{UnixSockets: true}, unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, eperm},
		{"own limits", plain, unix.SYS_PRLIMIT64, []uint64{0, 7, 0x1000}, allow},
		{"limits of another process, reading", plain, unix.SYS_PRLIMIT64, []uint64{4, 7, 0}, allow},
		{"limits of another process", plain, unix.SYS_PRLIMIT64, []uint64{4, 7, 0x1000}, eperm},
		{"limits of another process, address with low half zero", plain, unix.SYS_PRLIMIT64, []uint64{4, 7, 1 << 32}, eperm},
		{"kernel log", plain, unix.SYS_SYSLOG, []uint64{3}, eperm},
		{"datagram pair", plain, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, notify},
		{"datagram pair without a guard", FilterOptions{Unguarded: true}, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eperm},
		{"datagram pair without namespaces", FilterOptions{Landlock: &landlockFilter{}}, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eperm},
		{"message without an address", plain, unix.SYS_SENDTO, []uint64{3, 0x1000, 1, 0, 0, 30}, allow},
		{"message to an Internet address", plain, unix.SYS_SENDTO, []uint64{3, 0x1000, 1, 0, 0x1000, high | unix.SizeofSockaddrInet4}, allow},
		{"message to a Unix socket", plain, unix.SYS_SENDTO, []uint64{3, 0x1000, 1, 0, 0x1000, 30}, notify},
		{"message to a Unix socket at an address whose low half is zero", plain, unix.SYS_SENDTO, []uint64{3, 0x1000, 1, 0, 1 << 32, 30}, notify},
		{"linux 105 all unix sockets: socket", FilterOptions{UnixSockets: true}, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, allow},
		{"linux 105 all unix sockets: datagram pair", FilterOptions{UnixSockets: true}, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, allow},
		{"all unix sockets: vsock", FilterOptions{UnixSockets: true}, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eperm},
		{"linux 99 io_uring_setup", FilterOptions{UnixSockets: true}, unix.SYS_IO_URING_SETUP, nil, eperm},
		{"linux 99 io_uring_enter", plain, unix.SYS_IO_URING_ENTER, nil, eperm},
		{"linux 114 TIOCSTI", plain, unix.SYS_IOCTL, []uint64{0, high | unix.TIOCSTI}, eperm},
		{"subvolume of btrfs", plain, unix.SYS_IOCTL, []uint64{3, high | 0x5000940e}, errno(unix.EOPNOTSUPP)},
		{"snapshot of btrfs", plain, unix.SYS_IOCTL, []uint64{3, 0x50009417}, errno(unix.EOPNOTSUPP)},
		{"subvolume of bcachefs", plain, unix.SYS_IOCTL, []uint64{3, 0x4020bc10}, errno(unix.EOPNOTSUPP)},
		{"copy of ocfs2", plain, unix.SYS_IOCTL, []uint64{3, 0x40186f04}, errno(unix.EOPNOTSUPP)},
		{"copy of ocfs2 without namespaces", FilterOptions{Landlock: &landlockFilter{files: true}}, unix.SYS_IOCTL, []uint64{3, 0x40186f04}, errno(unix.EOPNOTSUPP)},
		{"copy of a range", plain, unix.SYS_IOCTL, []uint64{3, unix.FICLONERANGE}, allow},
		{"window size", plain, unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"linux 97 kill of process 1", plain, unix.SYS_KILL, []uint64{1, 9}, eperm},
		{"kill of another process", plain, unix.SYS_KILL, []uint64{17, 9}, allow},
		{"kill of the own group", plain, unix.SYS_KILL, []uint64{0, 15}, allow},
		{"limit of process 1", plain, unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE, 0x1000, 0}, eperm},
		{"limit at an address whose low half is zero", plain, unix.SYS_PRLIMIT64, []uint64{2, unix.RLIMIT_NOFILE, 1 << 32, 0}, eperm},
		{"limit of the caller itself", plain, unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x1000, 0}, allow},
		{"reading the limit of another process", plain, unix.SYS_PRLIMIT64, []uint64{2, unix.RLIMIT_NOFILE, 0, 0x1000}, allow},
		{"keyring", plain, unix.SYS_KEYCTL, nil, eperm},
		{"file handles", plain, unix.SYS_OPEN_BY_HANDLE_AT, nil, eperm},
		{"plain read", plain, unix.SYS_READ, nil, allow},
		{"open for reading", plain, unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDONLY}, allow},
		{"open that may create", plain, unix.SYS_OPENAT, []uint64{0, 0, unix.O_WRONLY | unix.O_CREAT}, notify},
		{"open for writing", plain, unix.SYS_OPENAT, []uint64{0, 0, high | unix.O_WRONLY}, notify},
		{"open that truncates", plain, unix.SYS_OPENAT, []uint64{0, 0, unix.O_TRUNC}, notify},
		{"unlink", plain, unix.SYS_UNLINKAT, nil, notify},
		{"rename", plain, unix.SYS_RENAMEAT2, nil, notify},
		{"rename without a guard", FilterOptions{}, unix.SYS_RENAMEAT2, nil, allow},
	} {
		prog, err := assemble(filterRules(c.o))
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, prog, auditArch, uint32(c.nr), c.args...); got != c.want {
			t.Errorf("%s: verdict %#x, want %#x", c.name, got, c.want)
		}
	}
}

// linux 102: other system call tables have other numbers and never run, nor do calls
// that are newer than the filter.
func TestFilterForeignTables(t *testing.T) {
	prog, err := assemble(filterRules(FilterOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ arch, nr uint32 }{
		"i386":          {unix.AUDIT_ARCH_I386, 20},
		"32-bit ARM":    {unix.AUDIT_ARCH_ARM, 20},
		"unknown":       {0, 0},
		"big-endian":    {unix.AUDIT_ARCH_PPC64, 20},
		"other 64 bits": {map[uint32]uint32{unix.AUDIT_ARCH_X86_64: unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_AARCH64: unix.AUDIT_ARCH_X86_64}[auditArch], 39},
	} {
		if got := run(t, prog, c.arch, c.nr); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("%s: verdict %#x, want the process killed", name, got)
		}
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		if got := run(t, prog, auditArch, 0x40000000|39); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("x32 getpid: verdict %#x, want the process killed", got)
		}
	}
	for number, want := range map[uint32]uint32{newestCall: unix.SECCOMP_RET_ALLOW, newestCall + 1: errno(unix.ENOSYS), 0x3fffffff: errno(unix.ENOSYS)} {
		if got := run(t, prog, auditArch, number); got != want {
			t.Errorf("call %d: verdict %#x, want %#x", number, got, want)
		}
	}
	if got := run(t, prog, auditArch, 0xffffffff); got != unix.SECCOMP_RET_ALLOW {
		t.Errorf("call -1, which tracers use to skip a call: verdict %#x", got)
	}
}

// Without the guard nobody answers, so nothing may be handed over; the Unix sockets
// that it would judge do not exist.
func TestFilterUnguarded(t *testing.T) {
	for _, unixSockets := range []bool{false, true} {
		o := FilterOptions{Unguarded: true, UnixSockets: unixSockets, Guard: true, Direct: true, HostPorts: true}
		if o.served() {
			t.Error("calls are served")
		}
		prog, err := assemble(filterRules(o))
		if err != nil {
			t.Fatal(err)
		}
		for nr := range uint32(500) {
			for _, first := range []uint64{0, unix.AF_UNIX, unix.AF_INET} {
				if run(t, prog, auditArch, nr, first, unix.SOCK_STREAM, unix.O_CREAT|unix.O_RDWR) == unix.SECCOMP_RET_USER_NOTIF {
					t.Errorf("call %d is handed over", nr)
				}
			}
		}
		want := errno(unix.EPERM)
		if unixSockets {
			want = unix.SECCOMP_RET_ALLOW
		}
		if got := run(t, prog, auditArch, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM); got != want {
			t.Errorf("Unix sockets, allowed %v: %#x", unixSockets, got)
		}
		if got := run(t, prog, auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("Internet sockets: %#x", got)
		}
	}
}
