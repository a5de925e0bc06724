package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mountAttr is what a mount_setattr(2) call changes. Only flags that make a
// mount stricter are ever set, which an unprivileged owner of the mount
// namespace may always do.
type mountAttr uint64

const (
	attrReadOnly = mountAttr(unix.MOUNT_ATTR_RDONLY)
	attrNoSuid   = mountAttr(unix.MOUNT_ATTR_NOSUID)
	attrNoDev    = mountAttr(unix.MOUNT_ATTR_NODEV)
	attrNoExec   = mountAttr(unix.MOUNT_ATTR_NOEXEC)
)

// openObject opens path as an O_PATH descriptor of the object itself. No
// component may be a symbolic link: the policy names real places, so a link
// means that somebody changed the tree after the decision.
func openObject(path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", path, err)
	}
	return fd, nil
}

// openPlanned opens the object of a step and checks that it is the planned one.
func openPlanned(op Op) (int, error) {
	fd, err := openObject(op.Path)
	if err != nil {
		return -1, orChanged(op, err)
	}
	if err := checkIdentity(fd, op); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func checkIdentity(fd int, op Op) error {
	if op.Ino == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("inspecting %s: %w", op.Path, err)
	}
	if st.Dev != op.Dev || st.Ino != op.Ino {
		return &changedError{Path: op.Path}
	}
	return nil
}

// changedError says that the tree changed between the plan and the mount.
type changedError struct{ Path string }

func (e *changedError) Error() string {
	return e.Path + " was replaced or removed while the sandbox was being set up"
}

// orChanged recognises the errors of a place that is no longer what it was when
// the plan found it: gone, beneath something that is not a directory, or a link.
func orChanged(op Op, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return &changedError{Path: op.Path}
	}
	return err
}

// cloneTree returns a detached copy of the mounts at and below the object fd,
// without the mounts that were placed on it later.
func cloneTree(fd int, recursive bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.OpenTree(fd, "", flags)
}

// cloneObject returns a detached copy of the mount that the object fd is in, for
// the sake of that object alone. The kernel refuses a copy without the mounts
// below it to all but those who made them, because it would show what they cover.
func cloneObject(fd int) (int, error) {
	clone, err := cloneTree(fd, false)
	if errors.Is(err, unix.EINVAL) {
		return cloneTree(fd, true)
	}
	return clone, err
}

// setAttr adds attributes to the mount that fd is the root of.
func setAttr(fd int, attr mountAttr, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(fd, "", flags, &unix.MountAttr{Attr_set: uint64(attr)})
}

// attach moves the detached mount onto the object target.
func attach(mount, target int) error {
	return unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// attachAt is attach for a target given by path.
func attachAt(mount int, path string) error {
	target, err := openObject(path)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := attach(mount, target); err != nil {
		return fmt.Errorf("mounting at %s: %w", path, err)
	}
	return nil
}

// newFilesystem creates a detached mount of a fresh file system.
func newFilesystem(fstype string, attr mountAttr, options ...[2]string) (int, error) {
	ctx, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("creating a %s file system: %w", fstype, err)
	}
	defer unix.Close(ctx)
	for _, o := range options {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(ctx, o[0])
		} else {
			err = unix.FsconfigSetString(ctx, o[0], o[1])
		}
		if err != nil {
			return -1, fmt.Errorf("setting the %s option %s=%s: %w", fstype, o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("creating a %s file system: %w", fstype, err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, int(attr))
	if err != nil {
		return -1, fmt.Errorf("mounting a %s file system: %w", fstype, err)
	}
	return fd, nil
}
