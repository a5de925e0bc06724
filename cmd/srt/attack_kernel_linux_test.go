package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The techniques of this file attack invariant 5, "the command cannot regain
// privileges", through the kernel's own interfaces.
//
// What is left to the command on purpose: personality(2), which changes only the
// caller and is undone by a program that gains privileges (none does);
// name_to_handle_at(2), whose handles nobody can open; inotify(7) and fanotify(7),
// which tell about files that it may read anyhow; memfd_create(2), see
// "filter: program from memory".

var kernelTechniques = []technique{
	{"mounts: every call", everyMountCall},
	{"namespaces: every flag of unshare", everyNamespace},
	{"namespaces: every flag of clone", everyCloneFlag},
	{"namespaces: setns of a process", func() error {
		fd, err := unix.PidfdOpen(target(), 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}},
	{"kernel: settings", func() error { return openAny("/proc/sys") }},
	{"kernel: devices and modules", func() error { return openAny("/sys") }},
	{"kernel: other files of /proc", openProcFiles},
	{"kernel: log", func() error { _, err := unix.Klogctl(3, make([]byte, 64)); return err }},
	{"kernel: domain name", func() error { return unix.Setdomainname([]byte("x")) }},
	{"kernel: time of day", setTime},
	{"kernel: clock", func() error { var t unix.Timex; t.Modes = 1; _, err := unix.Adjtimex(&t); return err }},
	{"kernel: swap", func() error { return calls(unix.SYS_SWAPON, unix.SYS_SWAPOFF) }},
	{"kernel: accounting", func() error { return call(unix.SYS_ACCT, 0, 0) }},
	{"kernel: reboot", func() error { return call(unix.SYS_REBOOT, 0, 0) }},
	{"kernel: quota", func() error { return call(unix.SYS_QUOTACTL, 0x800007<<8, 0) }},
	{"kernel: hang up", func() error { return call(unix.SYS_VHANGUP, 0, 0) }},
	{"kernel: modules and kernels", func() error {
		return calls(unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD)
	}},
	{"kernel: keyrings", func() error { return calls(unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL) }},
	{"kernel: every io_uring call", func() error {
		return calls(unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)
	}},
	{"kernel: priority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
	{"kernel: character device", func() error { return makeDevice(unix.S_IFCHR, unix.Mkdev(1, 1)) }},
	{"kernel: block device", func() error { return makeDevice(unix.S_IFBLK, unix.Mkdev(8, 0)) }},
	{"kernel: device files", openDevices},
	{"privileges: file capability", fileCapability},
}

func lockThreadForGood() { runtime.LockOSThread() }

// calls makes each call without arguments. An error that only the call itself
// gives means that it was reached.
func calls(numbers ...uintptr) error {
	var last error
	for _, nr := range numbers {
		_, _, e := unix.Syscall6(nr, 0, 0, 0, 0, 0, 0)
		if e != unix.EPERM && e != unix.ENOSYS {
			return nil
		}
		last = e
	}
	return last
}

func everyMountCall() error {
	const openTreeAttr = 467
	return calls(unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
		unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, openTreeAttr, unix.SYS_SETNS)
}

var namespaceFlags = []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP}

func everyNamespace() error {
	var last error
	for _, flag := range append(namespaceFlags, unix.CLONE_NEWTIME, 1<<40|unix.CLONE_NEWUSER, 0x00100000) {
		_, _, e := unix.RawSyscall(unix.SYS_UNSHARE, uintptr(flag), 0, 0)
		if e != unix.EPERM {
			return nil
		}
		last = e
	}
	return last
}

func everyCloneFlag() error {
	var last error
	for _, flag := range namespaceFlags {
		if last = cloneWith(flag); last == nil {
			return nil
		}
	}
	return last
}

// openAny opens files of a tree for writing until one lets it.
func openAny(tree string) error {
	found := error(unix.EROFS)
	_ = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && open(path, unix.O_WRONLY) == nil {
			found = nil
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// openProcFiles opens the entries of /proc that are no processes.
func openProcFiles() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") == "" || e.Name() == "self" || e.Name() == "thread-self" {
			continue
		}
		path := "/proc/" + e.Name()
		if e.Type().IsRegular() && open(path, unix.O_WRONLY) == nil || e.IsDir() && openAny(path) == nil {
			return nil
		}
	}
	for _, name := range []string{"/proc/kcore", "/proc/kmsg"} {
		if open(name, unix.O_RDONLY) == nil {
			return nil
		}
	}
	return unix.EROFS
}

func setTime() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

func makeDevice(kind uint32, number uint64) error {
	defer os.Remove("device")
	if err := unix.Mknod("device", kind|0o600, int(number)); err != nil {
		return err
	}
	return open("device", unix.O_RDONLY)
}

// openDevices opens what the host's /dev has and the sandbox's must not.
func openDevices() error {
	var last error
	for _, name := range []string{"mem", "kmem", "port", "kmsg", "fuse", "kvm", "vda", "sda", "nvme0n1", "dm-0", "loop-control", "net/tun", "vsock", "uinput", "mapper/control", "tty0", "tty1"} {
		if last = open("/dev/"+name, unix.O_RDONLY); last == nil {
			return nil
		}
	}
	return last
}

// fileCapability gives a file a capability of this user namespace.
func fileCapability() error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	capability := [20]byte{}
	*(*uint32)(unsafe.Pointer(&capability[0])) = 0x02000001 // version 2, effective
	*(*uint32)(unsafe.Pointer(&capability[4])) = 1 << unix.CAP_DAC_OVERRIDE
	err = unix.Setxattr(name, "security.capability", capability[:], 0)
	if errors.Is(err, unix.ENOTSUP) {
		err = unix.EPERM
	}
	return err
}
