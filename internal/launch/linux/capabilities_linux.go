package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// initCapabilities are what srt-init needs inside its own user namespace. They
// mean nothing outside of it.
var initCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN,    // mounts
	unix.CAP_NET_ADMIN,    // the loopback interface
	unix.CAP_SYS_PTRACE,   // reading the arguments of handed-over calls
	unix.CAP_SETPCAP,      // emptying the bounding set
	unix.CAP_SYS_RESOURCE, // the limit of user namespaces
	unix.CAP_DAC_OVERRIDE, // mount points below closed directories of the caller
	unix.CAP_KILL,
}

// securebits that keep an exec as uid 0 from gaining capabilities, each with
// its lock: SECBIT_NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, see
// capabilities(7).
const lockedSecurebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<6 | 1<<7

// dropCapabilities takes every capability from the calling thread, now and
// after any exec.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, lockedSecurebits, 0, 0, 0); err != nil {
		return fmt.Errorf("locking the securebits: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last capability of this kernel
		}
		if err != nil {
			return fmt.Errorf("emptying the capability bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing the ambient capabilities: %w", err)
	}
	return setCapabilities(0, 0)
}

// setCapabilities sets the effective and permitted sets of the calling thread
// and empties its inheritable set.
func setCapabilities(effective, permitted uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(effective), Permitted: uint32(permitted)},
		{Effective: uint32(effective >> 32), Permitted: uint32(permitted >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("setting the capabilities: %w", err)
	}
	return nil
}
