package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Capabilities are what srt-init needs inside its own user namespace. They
// mean nothing outside of it.
var Capabilities = []uintptr{
	unix.CAP_SYS_ADMIN,    // mounts
	unix.CAP_NET_ADMIN,    // the loopback interface
	unix.CAP_SYS_PTRACE,   // reading the arguments of handed-over calls
	unix.CAP_SETPCAP,      // emptying the bounding set
	unix.CAP_SYS_RESOURCE, // the limit of user namespaces
	unix.CAP_DAC_OVERRIDE, // mount points below closed directories of the caller
	unix.CAP_KILL,
	unix.CAP_NET_BIND_SERVICE, // listeners that stand for servers outside
	unix.CAP_SETFCAP,          // for commands that may create user namespaces as root
}

// securebits that keep an exec as uid 0 from gaining capabilities, each with
// its lock: SECBIT_NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, see
// capabilities(7).
const lockedSecurebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<6 | 1<<7

// nestedRootCapabilities is what a command of uid 0 keeps where the settings
// let it create user namespaces: since Linux 5.12 only a creator with
// CAP_SETFCAP may map uid 0 into a new one. It reaches files of this namespace
// only, and the mounts ignore file capabilities.
const nestedRootCapabilities = 1 << unix.CAP_SETFCAP

// dropCapabilities takes every capability from the calling thread, now and
// after any exec, but those in keep.
func dropCapabilities(keep uint64) error {
	if err := dropBoundingSet(keep); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing the ambient capabilities: %w", err)
	}
	if keep != 0 {
		if err := keepAcrossExec(keep); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, lockedSecurebits, 0, 0, 0); err != nil {
		return fmt.Errorf("locking the securebits: %w", err)
	}
	return capset(keep, keep, keep)
}

func dropBoundingSet(keep uint64) error {
	for c := uintptr(0); ; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // past the last capability of this kernel
		}
		if err != nil {
			return fmt.Errorf("emptying the capability bounding set: %w", err)
		}
	}
}

// keepAcrossExec makes capabilities inheritable and ambient.
func keepAcrossExec(keep uint64) error {
	all := keep | 1<<unix.CAP_SETPCAP
	if err := capset(all, all, keep); err != nil {
		return err
	}
	for c := uintptr(0); c < 64; c++ {
		if keep&(1<<c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("keeping capability %d: %w", c, err)
		}
	}
	return nil
}

// setCapabilities sets the effective and permitted sets of the calling thread
// and empties its inheritable set.
func setCapabilities(effective, permitted uint64) error { return capset(effective, permitted, 0) }

func capset(effective, permitted, inheritable uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(effective), Permitted: uint32(permitted), Inheritable: uint32(inheritable)},
		{Effective: uint32(effective >> 32), Permitted: uint32(permitted >> 32), Inheritable: uint32(inheritable >> 32)},
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("setting the capabilities: %w", err)
	}
	return nil
}
