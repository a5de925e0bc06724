package inside

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BubblewrapProgram is how bwrap starts srt-init: a descriptor that it inherits,
// because a policy may hide every path of the binary.
const BubblewrapProgram = "/proc/self/fd/6"

// BubblewrapProgramFD is the descriptor that BubblewrapProgram names.
const BubblewrapProgramFD = 6

// ControlFD is the descriptor of the control socket in srt-init.
const ControlFD = controlFD

// startedByBubblewrap recognises the command line that bwrap executes: it
// passes no other argument zero than the path.
func startedByBubblewrap() bool {
	return len(os.Args) == 2 && os.Args[0] == BubblewrapProgram && os.Args[1] == Name
}

// leadGroup makes srt-init the leader of a process group, so that signals for
// the command do not reach bwrap outside.
func leadGroup() error {
	if unix.Getpgrp() == unix.Getpid() {
		return nil
	}
	if err := unix.Setpgid(0, 0); err != nil {
		return fmt.Errorf("making a process group: %w", err)
	}
	return nil
}

// adoptStreams makes the command's streams, which follow the spec, this
// process's own and returns the other descriptors. bwrap never has the streams:
// a reader of the command's output would wait for bwrap to close them, too.
func adoptStreams(fds []int) ([]int, error) {
	const streams = 3
	if len(fds) <= streams {
		return nil, errors.New("receiving the standard streams: unexpected message")
	}
	for number, fd := range fds[1 : streams+1] {
		err := unix.Dup3(fd, number, 0)
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("receiving the standard streams: %w", err)
		}
	}
	return append(fds[:1:1], fds[streams+1:]...), nil
}

// complete is what remains of run after bwrap: it checks that bwrap made what
// was planned of the objects that were planned, and adds what bwrap has no
// option for. bwrap made its namespaces as this user, so srt-init may do so.
func (x *executor) complete(dev *deviceNodes) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mount tree private: %w", err)
	}
	steps := []func() error{dev.take, mountProc, x.checkTree, x.pinLinks, x.makeBlank, x.hideFiles, func() error { return dev.mount(x.attrs) }}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checkTree compares what bwrap made with the plan. bwrap finds objects by
// path, at a moment when somebody may be moving them.
func (x *executor) checkTree() error {
	hidden := x.hiddenPaths()
	for _, op := range x.plan {
		var err error
		switch {
		case op.Kind == OpHideDir, op.Kind == OpBind && !op.Write && !underAny(hidden, op.Path):
			err = x.checkCovered(op)
		case op.Kind == OpBind:
			err = checkPlace(op)
		}
		if err != nil {
			return err
		}
	}
	return x.checkMounts()
}

// checkPlace looks the object of a step up as the command will.
func checkPlace(op Op) error {
	fd, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = mountOf(fd, op.Path)
	return err
}

// mountOf returns the identity of the mount that fd is the root of. A step of
// which nothing shows acted on another object.
func mountOf(fd int, name string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return "", fmt.Errorf("inspecting %s: %w", name, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return "", &changedError{Path: name}
	}
	return strconv.FormatUint(st.Mnt_id, 10), nil
}

// checkCovered compares the object beneath a mount with the plan: it is the one
// that must not be reachable, or not writable, any more. The mount is moved
// aside for a look and moved back onto exactly this object.
func (x *executor) checkCovered(op Op) error {
	cover, err := openObject(op.Path)
	if err != nil {
		return orChanged(op, err)
	}
	defer unix.Close(cover)
	if _, err := mountOf(cover, op.Path); err != nil {
		return err
	}
	check := checkPlace
	if op.Kind == OpHideDir {
		check = x.checkHidden
	}
	if err := check(op); err != nil {
		return err
	}
	aside := asidePath
	if !op.Dir {
		aside = asideFile
	}
	if err := attachAt(cover, aside); err != nil {
		if gone := checkPlace(op); gone != nil {
			return gone
		}
		return fmt.Errorf("looking beneath %s: %w", op.Path, err)
	}
	object, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(object)
	if err := attach(cover, object); err != nil {
		return fmt.Errorf("putting back the mount of %s: %w", op.Path, orChanged(op, err))
	}
	return nil
}

// checkHidden looks for anything in a hidden directory but the way to the places
// that the plan shows in it.
func (x *executor) checkHidden(op Op) error {
	way := map[string]bool{}
	for _, other := range x.plan {
		if Beneath(op.Path, other.Path) {
			name, _, _ := strings.Cut(strings.TrimPrefix(other.Path, op.Path+"/"), "/")
			way[name] = true
		}
	}
	entries, err := os.ReadDir(op.Path)
	if err != nil {
		return fmt.Errorf("looking into the hidden directory %s: %w", op.Path, err)
	}
	for _, e := range entries {
		if !way[e.Name()] {
			return fmt.Errorf("looking into the hidden directory %s: bwrap did not empty it", op.Path)
		}
	}
	return nil
}

// Mounts that nobody may reach are put where the sandbox's own /dev covers them
// for good in the end. The mount of a file needs a file to be put on.
const (
	asidePath = "/dev"
	asideFile = "/dev/null"
)

// checkMounts compares the attributes of every mount that can be reached with
// those of the step that governs it, and looks for the pins, which cannot.
func (x *executor) checkMounts() error {
	mounts, err := ReadMounts()
	if err != nil {
		return fmt.Errorf("listing the mounts: %w", err)
	}
	flags, present := map[string]uintptr{}, map[string]bool{}
	for _, m := range mounts {
		flags[m.id] = m.flags
		present[m.Path] = true
	}
	for _, op := range x.plan {
		if op.Kind == OpPin && !op.Symlink && !present[op.Path] {
			return &changedError{Path: op.Path}
		}
	}
	for p := range present {
		if err := x.checkMount(p, flags); err != nil {
			return err
		}
	}
	return nil
}

func (x *executor) checkMount(p string, flags map[string]uintptr) error {
	if p == "/proc" || p == "/dev" || Beneath("/proc", p) || Beneath("/dev", p) {
		return nil
	}
	fd, err := openObject(p)
	if err != nil {
		return nil // covered, or closed to the command as well
	}
	defer unix.Close(fd)
	id, err := mountOf(fd, p)
	if err != nil {
		return nil // another object has the name now; its own mount is looked at
	}
	want := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if !x.writableAt(p) {
		want |= unix.MS_RDONLY
	}
	if flags[id]&want != want {
		return fmt.Errorf("checking the mount of %s: bwrap left it less restricted than planned", p)
	}
	return nil
}

// writableAt says what the step that governs a place grants.
func (x *executor) writableAt(p string) bool {
	best, write := -1, false
	for _, op := range x.plan {
		if op.Kind == OpPin || op.Kind == OpHideFile || op.Path != p && !Beneath(op.Path, p) || len(op.Path) <= best {
			continue
		}
		best, write = len(op.Path), op.Write
	}
	return write
}

// pinLinks pins symbolic links. bwrap follows them and cannot.
func (x *executor) pinLinks() error {
	for _, op := range x.plan {
		if op.Kind == OpPin && op.Symlink {
			if err := pinAside(op); err != nil {
				return fmt.Errorf("pinning %s: %w", op.Path, err)
			}
		}
	}
	return nil
}

// pinAside pins in a copy of the directory's mount that nobody can reach. The
// kernel does not ask in which mount of the namespace a name is a mount point.
func pinAside(op Op) error {
	dir, err := openObject(path.Dir(op.Path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	aside, err := cloneObject(dir)
	if err != nil {
		return err
	}
	defer unix.Close(aside)
	if err := attachAt(aside, asidePath); err != nil {
		return err
	}
	link, err := unix.Openat(aside, path.Base(op.Path), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return orChanged(op, err)
	}
	defer unix.Close(link)
	if err := checkIdentity(link, op); err != nil {
		return err
	}
	self, err := cloneTree(link, false)
	if err != nil {
		return err
	}
	defer unix.Close(self)
	return attach(self, link)
}

// hideFiles covers files with one that nobody can open, which bwrap could only
// do with a device node that looks like one.
func (x *executor) hideFiles() error {
	for _, op := range x.plan {
		if op.Kind == OpHideFile {
			if err := x.cover(op, x.blank.file); err != nil {
				return err
			}
		}
	}
	return nil
}
