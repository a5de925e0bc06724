package inside

import (
	"golang.org/x/sys/unix"
)

// landlockFilter is what the filter must do where no namespace confines the
// command.
type landlockFilter struct {
	files        bool // hand over what changes files
	reads        bool // hand over every open, because some reads are denied
	localBinding bool
	unixSockets  bool
	supervisor   int // the process of srt-init
	starter      int // its thread that starts the command
}

// landlockRules close what namespaces would: sockets other than TCP, System V
// and POSIX queues of the host. What Landlock cannot decide is handed to srt-init.
func landlockRules(f *landlockFilter) []rule {
	rules := tcpRules(f)
	rules = append(rules, refuse(
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	)...)
	rules = append(rules,
		rule{call: unix.SYS_SETPRIORITY, when: []condition{equals(1, 0)}, action: unix.SECCOMP_RET_ALLOW},
		rule{call: unix.SYS_SETPRIORITY, action: errno(unix.EPERM)},
	)
	for _, call := range []uintptr{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN} {
		rules = append(rules,
			rule{call: call, when: []condition{equals(0, uint32(f.supervisor))}, action: errno(unix.EPERM)},
			rule{call: call, when: []condition{equals(0, uint32(f.starter))}, action: errno(unix.EPERM)})
	}
	if f.files {
		rules = append(rules, fileRules(f.reads)...)
	}
	return rules
}

// tcpRules leave TCP sockets of which srt-init makes the connections.
// MSG_FASTOPEN would connect with the first bytes instead.
func tcpRules(f *landlockFilter) []rule {
	var rules []rule
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint32{0, unix.IPPROTO_TCP} {
			rules = append(rules, rule{call: unix.SYS_SOCKET, action: unix.SECCOMP_RET_ALLOW,
				when: []condition{equals(0, family), maskedEquals(1, socketTypeMask, unix.SOCK_STREAM), equals(2, protocol)}})
		}
	}
	if f.unixSockets {
		rules = append(rules, rule{call: unix.SYS_SOCKET, when: []condition{equals(0, unix.AF_UNIX)}, action: unix.SECCOMP_RET_ALLOW})
	}
	rules = append(rules, rule{call: unix.SYS_SOCKET, action: errno(unix.EPERM)},
		rule{call: unix.SYS_CONNECT, action: unix.SECCOMP_RET_USER_NOTIF},
		rule{call: unix.SYS_SENDTO, when: []condition{hasAny(3, unix.MSG_FASTOPEN)}, action: errno(unix.EOPNOTSUPP)},
		rule{call: unix.SYS_SENDMSG, when: []condition{hasAny(2, unix.MSG_FASTOPEN)}, action: errno(unix.EOPNOTSUPP)},
		rule{call: unix.SYS_SENDMMSG, when: []condition{hasAny(3, unix.MSG_FASTOPEN)}, action: errno(unix.EOPNOTSUPP)})
	if !f.localBinding {
		// A socket that listens unbound gets a port; no ruleset knows of that.
		rules = append(rules, refuse(unix.SYS_LISTEN)...)
	}
	if !f.localBinding && !f.unixSockets {
		rules = append(rules, refuse(unix.SYS_BIND)...)
	}
	return rules
}

// Requests of file systems come in families by their second byte, see
// ioctl_fs(2). Some change inodes, or make subvolumes, through a descriptor that
// is open for reading only; none but these reads are let through.
const (
	familyMask     = 0xff00
	familyExt      = 'f' << 8
	familyXFS      = 'X' << 8
	familyBtrfs    = 0x94 << 8
	familyBcachefs = 0xbc << 8
	familyOCFS2    = 'o' << 8
	fsIocGetFlags  = 0x80086601
	fsIocFiemap    = 0xc020660b
	fsIocGetXattr  = 0x801c581f // FS_IOC_FSGETXATTR
	fsIocSetVer    = 0x40087602 // FS_IOC_SETVERSION
)

func inodeRequestRules() []rule {
	var rules []rule
	for _, request := range []uint32{fsIocGetFlags, fsIocFiemap, fsIocGetXattr} {
		rules = append(rules, rule{call: unix.SYS_IOCTL, when: []condition{equals(1, request)}, action: unix.SECCOMP_RET_ALLOW})
	}
	for _, family := range []uint32{familyExt, familyXFS, familyBtrfs} {
		rules = append(rules, rule{call: unix.SYS_IOCTL, when: []condition{maskedEquals(1, familyMask, family)}, action: errno(unix.EOPNOTSUPP)})
	}
	rules = append(rules, namingRules()...)
	return append(rules, rule{call: unix.SYS_IOCTL, when: []condition{equals(1, fsIocSetVer)}, action: errno(unix.EOPNOTSUPP)})
}

// fileRules hand over every call that changes a name, contents or metadata.
// Extended attributes and inode flags look unsupported, as on many file systems.
func fileRules(reads bool) []rule {
	notify := func(call uintptr, when ...condition) rule {
		return rule{call: call, when: when, action: unix.SECCOMP_RET_USER_NOTIF}
	}
	intent := func(arg int) []condition {
		if reads {
			return nil
		}
		return []condition{hasAny(arg, openChanges)}
	}
	rules := []rule{
		changesNothing(unix.SYS_OPENAT, 2), notify(unix.SYS_OPENAT, intent(2)...), notify(unix.SYS_OPENAT2),
		notify(unix.SYS_MKDIRAT), notify(unix.SYS_MKNODAT), notify(unix.SYS_SYMLINKAT), notify(unix.SYS_LINKAT),
		notify(unix.SYS_RENAMEAT2), notify(legacyCalls.renameat), notify(unix.SYS_UNLINKAT),
		notify(unix.SYS_TRUNCATE), notify(unix.SYS_FCHMOD), notify(unix.SYS_FCHMODAT), notify(unix.SYS_FCHOWN), notify(unix.SYS_FCHOWNAT),
		notify(unix.SYS_UTIMENSAT),
		{call: unix.SYS_FCHMODAT2, action: errno(unix.ENOSYS)},
		{call: unix.SYS_FILE_SETATTR, action: errno(unix.ENOSYS)},
		{call: unix.SYS_SETXATTRAT, action: errno(unix.ENOSYS)},
		{call: unix.SYS_REMOVEXATTRAT, action: errno(unix.ENOSYS)},
	}
	for _, call := range []uintptr{unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR} {
		rules = append(rules, rule{call: call, action: errno(unix.EOPNOTSUPP)})
	}
	rules = append(rules, inodeRequestRules()...)
	l := legacyCalls
	if l.present {
		rules = append(rules, changesNothing(l.open, 1), notify(l.open, intent(1)...), notify(l.creat), notify(l.mkdir), notify(l.mknod), notify(l.symlink), notify(l.link), notify(l.rename),
			notify(l.unlink), notify(l.rmdir), notify(l.chmod), notify(l.chown), notify(l.lchown), notify(l.utime), notify(l.utimes), notify(l.futimes))
	}
	return rules
}
