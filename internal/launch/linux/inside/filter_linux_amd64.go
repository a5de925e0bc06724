package inside

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// foreignNumbers kills callers of the x32 table, whose numbers carry bit 30.
// The number -1 is left alone: a tracer uses it to skip a call.
func foreignNumbers() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jf: 2},
		jumpEqual(0xffffffff, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS),
	}
}

// legacyCalls are the calls that newer machines have only in their *at form.
var legacyCalls = legacyNumbers{
	open: unix.SYS_OPEN, creat: unix.SYS_CREAT, mkdir: unix.SYS_MKDIR, mknod: unix.SYS_MKNOD, symlink: unix.SYS_SYMLINK,
	link: unix.SYS_LINK, rename: unix.SYS_RENAME, renameat: unix.SYS_RENAMEAT, present: true,
	unlink: unix.SYS_UNLINK, rmdir: unix.SYS_RMDIR, chmod: unix.SYS_CHMOD, chown: unix.SYS_CHOWN, lchown: unix.SYS_LCHOWN,
	utime: unix.SYS_UTIME, utimes: unix.SYS_UTIMES, futimes: unix.SYS_FUTIMESAT,
}
