package inside

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelSettings are the parts of /proc that change the whole machine. They
// belong to uid 0, and a sandbox of uid 0 is that uid for every check on file
// ownership, so they are read-only for everybody.
var kernelSettings = [...]string{
	"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi", "/proc/fs", "/proc/driver", "/proc/asound",
	"/proc/dynamic_debug", "/proc/pressure", "/proc/mtrr", "/proc/slabinfo", "/proc/latency_stats", "/proc/lock_stat",
}

// mountProc mounts the /proc of the sandbox's own PID namespace.
func mountProc() error {
	fd, err := newFilesystem("proc", attrNoSuid|attrNoDev|attrNoExec)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return attachAt(fd, "/proc")
}

// lockProc makes the settings of the kernel read-only. It comes after the last
// setting that srt itself writes.
func lockProc(set attributeSetter) error {
	for _, path := range kernelSettings {
		err := lockPath(path, set)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

func lockPath(path string, set attributeSetter) error {
	target, err := openObject(path)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	fd, err := cloneTree(target, false)
	if err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	defer unix.Close(fd)
	if err := attach(fd, target); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	if err := set(fd, attrReadOnly, false); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	return nil
}

// forbidUserNamespaces sets the limit of new user namespaces below this one to
// zero: a second barrier behind the seccomp filter. Kernels that do not let
// the owner of the namespace write it leave the filter alone in place.
func forbidUserNamespaces() error {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("limiting user namespaces: %w", err)
	}
	return nil
}
