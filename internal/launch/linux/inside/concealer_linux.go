package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// concealer hides again what a process of the host puts in the place of something
// hidden: an editor that saves a file renames a new one over it, which takes the
// mount on the old one away. It learns of that from the kernel, by inotify and by
// the list of mounts, and mounts on the new object at once. Until then, a fraction
// of a millisecond, the object can be opened.
//
// Its thread keeps what it needs for that in the user namespace of the sandbox.
// It acts on paths of the settings only, and puts nothing but blank objects there.
type concealer struct {
	control int
	file    blank
	dir     blank
	tree    *concealed
	kept    []*concealed // of the tree
	events  int          // of inotify, -1 if there is none
	watched map[int32][]*concealed
	// blind marks that changes of a directory are not told, so that one has to look.
	blind bool
	// busy is held while something is done, and for good when nothing may be done
	// any more.
	busy sync.Mutex
}

// concealerCapabilities are for mounts, and for directories that their owner closed.
const concealerCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_DAC_OVERRIDE

const (
	// lookInterval is the time between two looks where changes are not told.
	lookInterval = 100 * time.Millisecond
	// concealTimeout bounds the tries at one object, which may be on its way.
	concealTimeout = time.Second
	// shortestTurn is the least that sched(7) takes for one.
	shortestTurn = 100 * time.Microsecond
)

// startConcealer starts a concealer; nil where there is nothing to do.
func startConcealer(control int, paths []ConcealedPath, blanks blankSource) *concealer {
	if len(paths) == 0 {
		return nil
	}
	c := &concealer{control: control, tree: newConcealed("/", ""), watched: map[int32][]*concealed{}}
	for _, p := range paths {
		c.kept = append(c.kept, c.tree.add(p))
	}
	go func() {
		runtime.LockOSThread()
		fail(control, c.run(blanks))
	}()
	return c
}

// run returns only when it has to give up.
func (c *concealer) run(blanks blankSource) error {
	mounts, err := c.prepare(blanks)
	if err != nil {
		return err
	}
	wait := []unix.PollFd{{Fd: int32(mounts), Events: unix.POLLPRI}}
	if c.events >= 0 {
		wait = append(wait, unix.PollFd{Fd: int32(c.events), Events: unix.POLLIN})
	}
	if err := c.lookAtAll(); err != nil {
		return err
	}
	for {
		if err := errors.Join(c.file.prepare(), c.dir.prepare()); err != nil {
			return fmt.Errorf("preparing to hide what is replaced: %w", err)
		}
		timeout := -1
		if c.blind {
			timeout = int(lookInterval.Milliseconds())
		}
		n, err := unix.Poll(wait, timeout)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("waiting for changes of hidden paths: %w", err)
		}
		if n == 0 {
			err = c.lookAtAll()
		} else {
			err = c.lookAtChanges(wait[0].Revents != 0)
		}
		if err != nil {
			return err
		}
	}
}

// prepare makes the thread of the concealer ready and opens the list of mounts,
// which poll(2) finds changed when a mount comes or goes.
func (c *concealer) prepare(blanks blankSource) (mounts int, err error) {
	if err := blockSignals(); err != nil {
		return -1, err
	}
	if err := setCapabilities(concealerCapabilities, concealerCapabilities); err != nil {
		return -1, err
	}
	// Short turns come sooner (Linux 6.12): a command may keep every processor busy.
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(shortestTurn)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
	if c.file, err = newBlank(blanks.file); err != nil {
		return -1, err
	}
	if c.dir, err = newBlank(blanks.dir); err != nil {
		return -1, err
	}
	if c.events, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		c.events, c.blind = -1, true // too many of this user's programs have one
	}
	if mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("opening the list of mounts: %w", err)
	}
	return mounts, nil
}

func (c *concealer) lookAtAll() error {
	c.busy.Lock()
	defer c.busy.Unlock()
	return c.visit(unix.AT_FDCWD, c.tree)
}

// lookAtChanges acts on what changed. The list of mounts does first when something
// is replaced, but does not tell where.
func (c *concealer) lookAtChanges(mounts bool) error {
	c.busy.Lock()
	defer c.busy.Unlock()
	if mounts {
		for _, n := range c.kept {
			if err := c.glance(n); err != nil {
				return err
			}
		}
	}
	names, everything := c.read()
	if everything {
		return c.visit(unix.AT_FDCWD, c.tree)
	}
	for n := range names {
		if err := c.revisit(n); err != nil {
			return err
		}
	}
	return nil
}

// read returns the paths at which something appeared. Everything has to be looked at
// when the kernel had more to tell than it keeps.
func (c *concealer) read() (names map[*concealed]bool, everything bool) {
	var buf [16 << 10]byte
	for c.events >= 0 {
		n, err := unix.Read(c.events, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names, everything
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			wd, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:size]), "\x00")
			rest = rest[size:]
			if mask&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED) != 0 {
				delete(c.watched, wd)
				everything = true
				continue
			}
			for _, dir := range c.watched[wd] {
				for _, n := range dir.named(name) {
					if names == nil {
						names = map[*concealed]bool{}
					}
					names[n] = true
				}
			}
		}
	}
	return names, everything
}

// glance is a look at one path that is short where nothing changed.
func (c *concealer) glance(n *concealed) error {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, n.path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err == nil && c.hides(n, &st) {
		return nil
	}
	return c.revisit(n)
}

// revisit looks at one path again. Directories above it have events of their own.
func (c *concealer) revisit(n *concealed) error {
	dir, err := openObject(path.Dir(n.path))
	if err != nil {
		return nil //nolint:nilerr // whatever comes there will be told
	}
	defer unix.Close(dir)
	return c.visit(dir, n)
}

// visit hides what is at a path, and watches the directories on the way to those
// beneath it. The watch comes first: what changes after the look is told.
func (c *concealer) visit(dir int, n *concealed) error {
	fd, err := c.conceal(dir, n)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if len(n.below) == 0 || !isDirectory(fd) {
		return nil
	}
	c.watch(fd, n)
	for _, next := range n.below {
		if err := c.visit(fd, next); err != nil {
			return err
		}
	}
	return nil
}

// conceal hides what is at a path unless it may show. It returns what shows then,
// -1 if nothing does.
func (c *concealer) conceal(dir int, n *concealed) (int, error) {
	// To close the last descriptor of a removed object is to remove it, for which
	// there is time afterwards.
	var old []int
	defer func() { closeAll(old) }()
	for deadline := time.Now().Add(concealTimeout); ; {
		fd, err := unix.Openat(dir, n.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
		case unix.ENOENT, unix.ENOTDIR:
			return -1, nil
		default:
			c.blind = true // nobody tells when that changes
			return -1, nil
		}
		var st unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("inspecting %s: %w", n.path, err)
		}
		if c.mayShow(fd, n, &st) {
			return fd, nil
		}
		old = append(old, fd)
		if err = c.cover(fd, n, st.Mode&unix.S_IFMT == unix.S_IFDIR); err == nil {
			return -1, nil
		}
		if err != unix.ENOENT && err != unix.EINVAL && err != unix.EBUSY || time.Now().After(deadline) {
			return -1, fmt.Errorf("hiding %s again, which somebody outside replaced: %w", n.path, err)
		}
	}
}

// cover puts a blank object on an object.
func (c *concealer) cover(fd int, n *concealed, dir bool) error {
	b := &c.file
	if dir {
		b = &c.dir
	}
	err := b.prepare()
	if err == nil {
		err = attach(b.next, fd)
	}
	if err != nil {
		return err
	}
	if n.cover >= 0 {
		unix.Close(n.cover)
	}
	n.cover, b.next = b.next, -1
	return nil
}

// blank is an object that hides others, with a copy of its mount for the next one.
type blank struct {
	source, next int
	id           object
}

func newBlank(source int) (blank, error) {
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return blank{}, fmt.Errorf("inspecting the blank objects: %w", err)
	}
	return blank{source: source, next: -1, id: object{st.Dev, st.Ino}}, nil
}

func (b *blank) prepare() (err error) {
	if b.next < 0 {
		b.next, err = cloneTree(b.source, false)
	}
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// mayShow reports whether an object may be seen at a path.
func (c *concealer) mayShow(fd int, n *concealed, st *unix.Statx_t) bool {
	if c.hides(n, st) {
		return true
	}
	kind := uint32(st.Mode) & unix.S_IFMT
	switch {
	case kind == unix.S_IFLNK:
		return n.link != "" && linkSays(fd, n.link)
	case !n.kept || n.link != "":
		return !n.kept
	case !n.seen && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && kind == unix.S_IFDIR:
		n.mask = identityOf(st) // a file system of its own hides it, which the set-up made
	}
	n.seen = true
	return c.hides(n, st)
}

// hides reports whether what shows at a path is there to hide the rest.
func (c *concealer) hides(n *concealed, st *unix.Statx_t) bool {
	id := identityOf(st)
	return id == c.file.id || id == c.dir.id || id == n.mask
}

func identityOf(st *unix.Statx_t) object {
	return object{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

func linkSays(fd int, text string) bool {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	return err == nil && string(buf[:n]) == text
}

// watch has the kernel tell what appears in a directory.
func (c *concealer) watch(fd int, n *concealed) {
	if c.events < 0 {
		return
	}
	wd, err := unix.InotifyAddWatch(c.events, descriptorPath(fd), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
	if err != nil || changesUntold(fd) {
		c.blind = true
	}
	if err != nil {
		return
	}
	for _, known := range c.watched[int32(wd)] {
		if known == n {
			return
		}
	}
	c.watched[int32(wd)] = append(c.watched[int32(wd)], n)
}

// changesUntold recognises file systems that others change without this kernel.
func changesUntold(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC, gfs2Magic, lustreMagic:
		return true
	}
	return false
}

// Numbers of statfs(2) that package unix does not have.
const (
	gfs2Magic   = 0x01161970
	lustreMagic = 0x0bd00bd0
)

// uncover ends the concealer's work and takes its mounts away, when nobody is left
// who could look: what the command itself made shall be found as it is.
func (c *concealer) uncover() {
	if c == nil {
		return
	}
	c.busy.Lock()
	c.tree.each(func(n *concealed) {
		if n.cover >= 0 {
			_ = unix.Unmount(descriptorPath(n.cover), unix.MNT_DETACH)
		}
	})
}
