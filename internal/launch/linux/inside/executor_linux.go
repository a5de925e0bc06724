package inside

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// ScratchLimit bounds each in-memory directory that stands in for a hidden one,
// in bytes.
const ScratchLimit = 64 << 20

// executor carries out a mount plan with the mount API of Linux 5.2 and later,
// inside the mount namespace of the calling process.
type executor struct {
	plan Plan
	// pristine holds a detached copy of the host object for each step that will
	// need it after something covers the object, by index in the plan.
	pristine map[int]int
	// hidden tells, for each place mounted so far, whether it is an in-memory
	// directory. Mount points directly beneath such a one are created;
	// everything else must exist.
	hidden map[string]bool
	// seal lists in-memory directories to make read-only at the end.
	seal []int
	// blankDir and blankFile are detached sources for hidden places.
	blank blankSource
	attrs attributeSetter
}

// attributeSetter adds mount attributes; the two implementations differ in the
// kernel interface they need.
type attributeSetter func(fd int, attr mountAttr, recursive bool) error

func newExecutor(plan Plan) *executor {
	return &executor{plan: plan, pristine: map[int]int{}, hidden: map[string]bool{}, attrs: chooseAttributeSetter()}
}

// run turns the tree of this mount namespace into the planned one.
func (x *executor) run(dev *deviceNodes) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mount tree private: %w", err)
	}
	steps := []func() error{x.takePristine, dev.take, x.pinAll, x.mountBase, mountProc, x.makeBlank, x.mountPlaces,
		func() error { return dev.mount(x.attrs) }, x.sealAll}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// takePristine copies what a later step covers: write roots before the base
// turns read-only, and everything shown inside a hidden directory.
func (x *executor) takePristine() error {
	hidden := x.hiddenPaths()
	for i, op := range x.plan {
		if op.Kind != OpBind || !op.Write && !underAny(hidden, op.Path) {
			continue
		}
		fd, err := x.cloneFor(op)
		if err != nil {
			return err
		}
		x.pristine[i] = fd
	}
	return nil
}

func (x *executor) hiddenPaths() map[string]bool {
	hidden := map[string]bool{}
	for _, op := range x.plan {
		if op.Kind == OpHideDir {
			hidden[op.Path] = true
		}
	}
	return hidden
}

func underAny(dirs map[string]bool, p string) bool {
	if len(dirs) == 0 {
		return false
	}
	for p != "/" {
		p = path.Dir(p)
		if dirs[p] {
			return true
		}
	}
	return false
}

// cloneFor copies the mounts at op.Path.
func (x *executor) cloneFor(op Op) (int, error) {
	src, err := openPlanned(op)
	if err != nil {
		return -1, err
	}
	defer unix.Close(src)
	fd, err := cloneTree(src, true)
	if err != nil {
		return -1, fmt.Errorf("copying the mount of %s: %w", op.Path, err)
	}
	return fd, nil
}

// pinAll turns each pinned object into a mount point in the lowest layer.
func (x *executor) pinAll() error {
	for _, op := range x.plan {
		if op.Kind != OpPin {
			continue
		}
		if err := pin(op); err != nil {
			return err
		}
	}
	return nil
}

func pin(op Op) error {
	target, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	self, err := cloneObject(target)
	if err != nil {
		return fmt.Errorf("pinning %s: %w", op.Path, err)
	}
	defer unix.Close(self)
	if err := attach(self, target); err != nil {
		return fmt.Errorf("pinning %s: %w", op.Path, orChanged(op, err))
	}
	return nil
}

func (x *executor) mountBase() error {
	for _, op := range x.plan {
		if op.Kind != OpBase {
			continue
		}
		root, err := openObject("/")
		if err != nil {
			return err
		}
		defer unix.Close(root)
		return x.restrictBase(root, op.Write)
	}
	return errors.New("the mount plan has no base step")
}

func (x *executor) restrictBase(root int, write bool) error {
	attr := attrNoSuid | attrNoDev
	if !write {
		attr |= attrReadOnly
	}
	if err := x.attrs(root, attr, true); err != nil {
		return fmt.Errorf("restricting the base mounts: %w", err)
	}
	if !write {
		return nil
	}
	// A writable base still leaves the kernel's own settings alone.
	sys, err := openObject("/sys")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(sys)
	if err := x.attrs(sys, attrReadOnly, true); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("making /sys read-only: %w", err)
	}
	return nil
}

// mountPlaces carries out the steps after the base, parents first.
func (x *executor) mountPlaces() error {
	for i, op := range x.plan {
		var err error
		switch op.Kind {
		case OpBind:
			err = x.bind(i, op)
		case OpHideDir:
			err = x.hideDir(op)
		case OpHideFile:
			err = x.cover(op, x.blank.file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *executor) bind(i int, op Op) error {
	fd, ok := x.pristine[i]
	if !ok {
		var err error
		if fd, err = x.cloneFor(op); err != nil {
			return err
		}
	}
	defer unix.Close(fd)
	if err := x.makeMountPoint(op); err != nil {
		return err
	}
	if err := attachAt(fd, op.Path); err != nil {
		return orChanged(op, err)
	}
	x.hidden[op.Path] = false
	return x.restrict(op)
}

// restrict looks the place up again, as the command will, compares it with the
// plan and takes away what the step does not grant.
func (x *executor) restrict(op Op) error {
	fd, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := attrNoSuid | attrNoDev
	if !op.Write {
		attr |= attrReadOnly
	}
	if err := x.attrs(fd, attr, true); err != nil {
		if gone := checkPlace(op); gone != nil {
			return gone // a mount goes with the object that it is on
		}
		return fmt.Errorf("restricting the mount of %s: %w", op.Path, err)
	}
	return nil
}

func (x *executor) hideDir(op Op) error {
	x.hidden[op.Path] = true
	if !op.Write && !op.Nested {
		return x.cover(op, x.blank.dir)
	}
	target, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	fd, err := newFilesystem("tmpfs", attrNoSuid|attrNoDev, [2]string{"mode", "0755"}, [2]string{"size", strconv.Itoa(ScratchLimit)})
	if err != nil {
		return err
	}
	if err := attach(fd, target); err != nil {
		unix.Close(fd)
		return fmt.Errorf("hiding %s: %w", op.Path, orChanged(op, err))
	}
	if op.Write {
		return unix.Close(fd)
	}
	x.seal = append(x.seal, fd)
	return nil
}

// cover hides a place behind a copy of one of the blank objects.
func (x *executor) cover(op Op, source int) error {
	target, err := openPlanned(op)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	fd, err := cloneTree(source, false)
	if err != nil {
		return fmt.Errorf("hiding %s: %w", op.Path, err)
	}
	defer unix.Close(fd)
	if err := attach(fd, target); err != nil {
		return fmt.Errorf("hiding %s: %w", op.Path, orChanged(op, err))
	}
	return nil
}

// makeMountPoint creates the way to a place inside a hidden directory, where
// nothing of the host exists. Outside hidden directories it does nothing.
func (x *executor) makeMountPoint(op Op) error {
	above := path.Dir(op.Path)
	for above != "/" {
		if _, ok := x.hidden[above]; ok {
			break
		}
		above = path.Dir(above)
	}
	if !x.hidden[above] {
		return nil
	}
	if err := makeDirs(above, path.Dir(op.Path)); err != nil {
		return err
	}
	return makeTarget(op)
}

func makeDirs(top, dir string) error {
	if dir == top || dir == "/" {
		return nil
	}
	if err := makeDirs(top, path.Dir(dir)); err != nil {
		return err
	}
	if err := unix.Mkdir(dir, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the mount point %s: %w", dir, err)
	}
	return nil
}

func makeTarget(op Op) error {
	var err error
	if op.Dir {
		err = unix.Mkdir(op.Path, 0o755)
	} else {
		err = unix.Mknod(op.Path, unix.S_IFREG|0o644, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the mount point %s: %w", op.Path, err)
	}
	return nil
}

func (x *executor) sealAll() error {
	for _, fd := range x.seal {
		err := x.attrs(fd, attrReadOnly, false)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("making a hidden directory read-only: %w", err)
		}
	}
	x.seal = nil
	return nil
}
