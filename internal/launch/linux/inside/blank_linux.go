package inside

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// blankSource holds one empty directory and one unreadable empty file on an
// in-memory file system that no path leads to.
type blankSource struct{ dir, file int }

// makeBlank creates the blank objects. Their file system is mounted on /dev,
// where the sandbox's own /dev covers it for good a moment later: a detached
// copy can only be taken of a mount that is part of the namespace.
func (x *executor) makeBlank() error {
	mount, err := newFilesystem("tmpfs", attrNoSuid|attrNoDev, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := unix.Mkdirat(mount, "dir", 0o755); err != nil {
		return fmt.Errorf("making the empty directory: %w", err)
	}
	if err := unix.Mknodat(mount, "file", unix.S_IFREG, 0); err != nil {
		return fmt.Errorf("making the unreadable file: %w", err)
	}
	if err := attachAt(mount, "/dev"); err != nil {
		return err
	}
	// Nobody may change the mode of the file or fill the directory: the whole
	// mount is read-only from here on, and so is every copy of it.
	if err := x.attrs(mount, attrReadOnly, false); err != nil {
		return fmt.Errorf("making the blank objects read-only: %w", err)
	}
	if x.blank.dir, err = unix.Openat(mount, "dir", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening the empty directory: %w", err)
	}
	if x.blank.file, err = unix.Openat(mount, "file", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening the unreadable file: %w", err)
	}
	return nil
}
