package inside

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// chooseAttributeSetter returns mount_setattr(2) where the kernel has it (Linux
// 5.12) and one remount per mount where it has not.
func chooseAttributeSetter() attributeSetter {
	if haveMountSetattr() {
		return setAttr
	}
	return remountEach
}

var haveMountSetattr = sync.OnceValue(func() bool {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	return !errors.Is(err, unix.ENOSYS)
})

// remountEach adds attributes by remounting, for kernels before Linux 5.12. A
// remount names its mount by path, so the mount is reached through the link of
// its descriptor in /proc/self/fd; the mounts below are those that
// /proc/self/mountinfo lists beneath it.
func remountEach(fd int, attr mountAttr, recursive bool) error {
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	root, err := os.Readlink(self)
	if err != nil {
		return err
	}
	mounts, err := ReadMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.Path != root && !(recursive && Beneath(root, m.Path)) {
			continue
		}
		target := m.Path
		if m.Path == root {
			target = self
		}
		flags := m.flags | remountFlags(attr) | unix.MS_REMOUNT | unix.MS_BIND
		if err := unix.Mount("", target, "", flags, ""); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("remounting %s: %w", m.Path, err)
		}
	}
	return nil
}

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	// Path is where the mount is, Type the name of its file system.
	Path, Type string
	flags      uintptr
	id         string
}

// ReadMounts lists the mounts of this process's mount namespace.
func ReadMounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mounts []Mount
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); ok && len(fields) > 5 {
			fstype, _, _ := strings.Cut(after, " ")
			mounts = append(mounts, Mount{Path: unescapeMount(fields[4]), Type: fstype, flags: parseMountFlags(fields[5]), id: fields[0]})
		}
	}
	return mounts, lines.Err()
}

// unescapeMount undoes the octal escapes of blanks and backslashes in
// mountinfo, see proc_pid_mountinfo(5).
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

var mountFlagNames = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

func parseMountFlags(options string) uintptr {
	var flags uintptr
	for o := range strings.SplitSeq(options, ",") {
		flags |= mountFlagNames[o]
	}
	return flags
}

func remountFlags(attr mountAttr) uintptr {
	var flags uintptr
	for _, f := range []struct {
		attr mountAttr
		flag uintptr
	}{{attrReadOnly, unix.MS_RDONLY}, {attrNoSuid, unix.MS_NOSUID}, {attrNoDev, unix.MS_NODEV}, {attrNoExec, unix.MS_NOEXEC}} {
		if attr&f.attr != 0 {
			flags |= f.flag
		}
	}
	return flags
}
