package inside

import "golang.org/x/sys/unix"

const (
	// sysOpenTreeAttr is open_tree_attr(2), Linux 6.15, the same on every architecture.
	sysOpenTreeAttr = 467
	// unshareEmptyMounts asks unshare(2) for a mount namespace with nothing in it.
	unshareEmptyMounts = 0x00100000
	// namespaceFlags are the CLONE_NEW* flags that clone(2) can carry;
	// CLONE_NEWTIME shares its bit with the exit signal there.
	namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	socketTypeMask = 0xf
)

// legacyNumbers are call numbers that not every architecture has.
type legacyNumbers struct {
	open, creat, mkdir, mknod, symlink, link, rename, renameat  uintptr
	unlink, rmdir, chmod, chown, lchown, utime, utimes, futimes uintptr
	present                                                     bool
}

// filterRules lists what the filter refuses or hands over. Each group says
// which way out it closes.
func filterRules(o FilterOptions) []rule {
	rules := refusedCalls()
	if o.NestedNamespaces {
		rules = append(rules, newNamespaces(unix.CLONE_NEWCGROUP)...)
	} else {
		rules = append(rules, namespaceRules()...)
	}
	rules = append(rules, socketPairRules(o)...)
	if o.Landlock == nil {
		rules = append(rules, socketRules(o.UnixSockets, o.Unguarded)...)
		if o.served() && (!o.UnixSockets || o.Direct || o.HostPorts) {
			rules = append(rules, rule{call: unix.SYS_CONNECT, action: unix.SECCOMP_RET_USER_NOTIF})
		}
	}
	rules = append(rules, limitRules()...)
	rules = append(rules, terminalRules()...)
	rules = append(rules, initRules()...)
	if o.served() {
		// srt-init makes files with the caller's file mode mask, and remembers it.
		rules = append(rules, rule{call: unix.SYS_UMASK, action: unix.SECCOMP_RET_USER_NOTIF})
	}
	switch {
	case o.Landlock != nil:
		rules = append(rules, landlockRules(o.Landlock)...)
	case o.Guard && o.served():
		rules = append(rules, guardRules(o.Trace)...)
	}
	return rules
}

func refuse(calls ...uintptr) []rule {
	rules := make([]rule, 0, len(calls))
	for _, c := range calls {
		rules = append(rules, rule{call: c, action: errno(unix.EPERM)})
	}
	return rules
}

// refusedCalls reach parts of the kernel that no ordinary command needs and
// that the namespaces do not confine: io_uring performs system calls that no
// filter sees, keyrings and the kernel's log are shared with the host, handles
// open files without a path.
func refusedCalls() []rule {
	return refuse(
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SYSLOG,
	)
}

// namespaceRules keep the command in its namespaces: every deny is a mount and
// holds only in this mount namespace.
func namespaceRules() []rule {
	return append(newNamespaces(namespaceFlags, unix.CLONE_NEWTIME, unshareEmptyMounts), refuse(
		unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr,
	)...)
}

// newNamespaces refuses kinds of namespaces, further ones to unshare(2) alone.
// clone3(2) has its flags in memory, where a filter cannot look; "not implemented"
// makes every libc use clone(2).
//
// One of cgroups is refused to everybody. Its owner may mount the cgroups that it
// shows, with srt and the caller's other programs in them. Their files belong to the
// host's root, or its user, and as that the kernel takes the command.
func newNamespaces(kinds uint32, unshared ...uint32) []rule {
	all := kinds
	for _, u := range unshared {
		all |= u
	}
	return []rule{
		{call: unix.SYS_CLONE, when: []condition{hasAny(0, kinds)}, action: errno(unix.EPERM)},
		{call: unix.SYS_UNSHARE, when: []condition{hasAny(0, all)}, action: errno(unix.EPERM)},
		{call: unix.SYS_CLONE3, action: errno(unix.ENOSYS)},
	}
}

// socketRules allow IP sockets, which the network namespace confines, and the
// netlink protocols that ask about it; other families reach hardware or the
// hypervisor. Unix sockets reach host daemons through the file system: srt-init
// connects and binds those that stay connected, and there are no others, because
// a datagram, or a datagram pair, could be aimed at any socket with sendto(2).
func socketRules(unixSockets, unguarded bool) []rule {
	allowed := []rule{
		{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_INET)}, action: unix.SECCOMP_RET_ALLOW},
		{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_INET6)}, action: unix.SECCOMP_RET_ALLOW},
	}
	for _, protocol := range []uint32{unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG, unix.NETLINK_KOBJECT_UEVENT} {
		allowed = append(allowed, rule{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_NETLINK), equals(2, protocol)}, action: unix.SECCOMP_RET_ALLOW})
	}
	refused := rule{call: unix.SYS_SOCKET, action: errno(unix.EPERM)}
	if unixSockets {
		return append(allowed, rule{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_UNIX)}, action: unix.SECCOMP_RET_ALLOW}, refused)
	}
	if unguarded {
		return append(allowed, refused)
	}
	kinds := func(action uint32, kinds ...uint32) {
		for _, kind := range kinds {
			allowed = append(allowed, rule{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_UNIX), maskedEquals(1, socketTypeMask, kind)}, action: action})
		}
	}
	kinds(unix.SECCOMP_RET_ALLOW, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	// SOCK_RAW means SOCK_DGRAM there, see unix(7). srt-init refuses and reports it.
	kinds(unix.SECCOMP_RET_USER_NOTIF, unix.SOCK_DGRAM, unix.SOCK_RAW)
	return append(allowed, refused, rule{call: unix.SYS_BIND, action: unix.SECCOMP_RET_USER_NOTIF})
}

// socketPairRules allow the pairs whose ends stay connected to each other. Any
// other could be aimed at every datagram socket of the host with sendto(2), so
// srt-init makes packet pairs of datagram ones; the kernel takes SOCK_RAW for
// SOCK_DGRAM.
func socketPairRules(o FilterOptions) []rule {
	pair := func(action uint32, when ...condition) rule {
		return rule{call: unix.SYS_SOCKETPAIR, when: append(when, equals(0, unix.AF_UNIX)), action: action}
	}
	kind := func(value uint32) condition { return maskedEquals(1, socketTypeMask, value) }
	rules := []rule{pair(unix.SECCOMP_RET_ALLOW, kind(unix.SOCK_STREAM)), pair(unix.SECCOMP_RET_ALLOW, kind(unix.SOCK_SEQPACKET))}
	switch {
	case o.UnixSockets:
		rules = append(rules, pair(unix.SECCOMP_RET_ALLOW))
	case o.Landlock == nil && o.served():
		rules = append(rules, pair(unix.SECCOMP_RET_USER_NOTIF, kind(unix.SOCK_DGRAM)), pair(unix.SECCOMP_RET_USER_NOTIF, kind(unix.SOCK_RAW)))
		rules = append(rules, addressedRules()...)
	}
	return append(rules, rule{call: unix.SYS_SOCKETPAIR, action: errno(unix.EPERM)})
}

// addressedRules hand messages over whose address may be that of a Unix socket.
// Those of the other families have sizes of their own.
func addressedRules() []rule {
	const inet6Short, storage = 24, maxSockaddr // without the scope; struct sockaddr_storage
	rules := []rule{{call: unix.SYS_SENDTO, when: isNull(4), action: unix.SECCOMP_RET_ALLOW}}
	for _, size := range []uint32{unix.SizeofSockaddrNetlink, unix.SizeofSockaddrInet4, inet6Short, unix.SizeofSockaddrInet6, storage} {
		rules = append(rules, rule{call: unix.SYS_SENDTO, when: []condition{equals(5, size)}, action: unix.SECCOMP_RET_ALLOW})
	}
	return append(rules, rule{call: unix.SYS_SENDTO, action: unix.SECCOMP_RET_USER_NOTIF})
}

// terminalRules refuse the requests that type into a terminal, take it over or
// make it useless for others: the command shares it with the caller's shell. An
// exclusive terminal cannot be opened again, not even as /dev/tty, and a line
// discipline is driver code that no ordinary command needs.
func terminalRules() []rule {
	const tioclinux, tioccons, tiocsetd, tiocvhangup = 0x541c, 0x541d, 0x5423, 0x5437
	var rules []rule
	for _, request := range []uint32{unix.TIOCSTI, tioclinux, tioccons, unix.TIOCEXCL, tiocsetd, tiocvhangup} {
		rules = append(rules, rule{call: unix.SYS_IOCTL, when: []condition{equals(1, request)}, action: errno(unix.EPERM)})
	}
	return rules
}

// initRules keep signals away from srt-init, which is process 1 inside. The
// kernel drops those that get past these rules by the number of one of its
// threads, see ignoreSignals.
func initRules() []rule {
	var rules []rule
	for _, call := range []uintptr{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		rules = append(rules, rule{call: call, when: []condition{equals(0, 1)}, action: errno(unix.EPERM)})
	}
	return rules
}

// limitRules keep a process from setting limits of another one. The kernel asks
// only for the same user, and srt-init has that: a command could starve it of
// descriptors or have the kernel signal it for using the processor. Its threads
// have numbers that no filter can know.
func limitRules() []rule {
	return []rule{
		{call: unix.SYS_PRLIMIT64, when: []condition{equals(0, 0)}, action: unix.SECCOMP_RET_ALLOW},
		{call: unix.SYS_PRLIMIT64, when: isNull(2), action: unix.SECCOMP_RET_ALLOW}, // only reads
		{call: unix.SYS_PRLIMIT64, action: errno(unix.EPERM)},
	}
}

// changesNothing lets the opens through that only make a place to start from:
// with O_PATH the kernel ignores every flag that could change something, and
// srt-init could not hand such a descriptor out.
func changesNothing(call uintptr, flags int) rule {
	return rule{call: call, when: []condition{hasAny(flags, unix.O_PATH)}, action: unix.SECCOMP_RET_ALLOW}
}

// namingRequests are the requests of ioctl(2) that make or remove a name in a directory,
// by type and number: the subvolumes and snapshots of btrfs and bcachefs, and the
// copies of ocfs2. No hook of names is called for them, nor could srt-init read them
// once only.
var namingRequests = [...]uint32{
	familyBtrfs | 1, familyBtrfs | 14, familyBtrfs | 15, familyBtrfs | 23, familyBtrfs | 24, familyBtrfs | 63,
	familyBcachefs | 16, familyBcachefs | 17, familyBcachefs | 29, familyBcachefs | 30, familyBcachefs | 31, familyBcachefs | 32,
	familyOCFS2 | 4,
}

// namingRules make these look unsupported: tools take a directory then.
func namingRules() []rule {
	var rules []rule
	for _, request := range namingRequests {
		rules = append(rules, rule{call: unix.SYS_IOCTL, when: []condition{maskedEquals(1, familyMask|0xff, request)}, action: errno(unix.EOPNOTSUPP)})
	}
	return rules
}

// guardRules hand the calls that create, remove or open for writing to srt-init;
// openat2(2) has its flags in memory. With trace they hand every open over.
func guardRules(trace bool) []rule {
	notify := func(call uintptr, when ...condition) rule {
		return rule{call: call, when: when, action: unix.SECCOMP_RET_USER_NOTIF}
	}
	opens := func(flags int) []condition {
		if trace {
			return nil
		}
		return []condition{hasAny(flags, openChanges)}
	}
	rules := []rule{
		changesNothing(unix.SYS_OPENAT, 2), notify(unix.SYS_OPENAT, opens(2)...),
		notify(unix.SYS_OPENAT2),
		notify(unix.SYS_MKDIRAT), notify(unix.SYS_MKNODAT), notify(unix.SYS_SYMLINKAT), notify(unix.SYS_LINKAT),
		notify(unix.SYS_RENAMEAT2), notify(legacyCalls.renameat), notify(unix.SYS_UNLINKAT), notify(unix.SYS_TRUNCATE),
	}
	rules = append(rules, namingRules()...)
	if legacyCalls.present {
		rules = append(rules,
			changesNothing(legacyCalls.open, 1), notify(legacyCalls.open, opens(1)...), notify(legacyCalls.creat), notify(legacyCalls.unlink), notify(legacyCalls.rmdir),
			notify(legacyCalls.mkdir), notify(legacyCalls.mknod), notify(legacyCalls.symlink), notify(legacyCalls.link), notify(legacyCalls.rename))
	}
	return rules
}
