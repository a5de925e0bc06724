package inside

import (
	"encoding/binary"
	"fmt"
	"path"
	"runtime"
	"strings"
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
	// maxReads keeps a command that changes directories all the time from keeping the
	// concealer busy with that alone.
	maxReads = 8
)

// startConcealer starts a concealer where there is something to do. hidden are the
// directories that the set-up hid.
func startConcealer(control int, paths []ConcealedPath, hidden map[string]bool, blanks blankSource) {
	if len(paths) == 0 {
		return
	}
	c := &concealer{control: control, tree: newConcealed("/", ""), watched: map[int32][]*concealed{}}
	for _, p := range paths {
		n := c.tree.add(p)
		n.planned = hidden[p.Path] && p.Link == ""
		c.kept = append(c.kept, n)
	}
	go func() {
		runtime.LockOSThread()
		fail(control, c.run(blanks))
	}()
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
	next, err := c.lookAtAll()
	for err == nil {
		if err := c.prepareNext(); err != nil {
			return err
		}
		timeout := -1
		if c.blind {
			timeout = int(max(0, time.Until(next).Milliseconds()+1))
		}
		n, failed := unix.Poll(wait, timeout)
		if failed != nil && failed != unix.EINTR {
			return fmt.Errorf("waiting for changes of hidden paths: %w", failed)
		}
		if n > 0 {
			err = c.lookAtChanges(wait[0].Revents != 0)
		}
		// A command that makes changes all the time must not put this off.
		if err == nil && c.blind && time.Now().After(next) {
			next, err = c.lookAtAll()
		}
	}
	return err
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

// prepareNext has the next mount ready where one was needed before: making it takes
// as long as attaching it.
func (c *concealer) prepareNext() error {
	for _, b := range []*blank{&c.file, &c.dir} {
		if !b.used {
			continue
		}
		if err := b.prepare(); err != nil {
			return fmt.Errorf("preparing to hide what is replaced: %w", err)
		}
	}
	return nil
}

// lookAtAll also says when to do so the next time.
func (c *concealer) lookAtAll() (next time.Time, err error) {
	const most = 20 // parts of a processor's time, in which it takes one
	begin := time.Now()
	err = c.visit(unix.AT_FDCWD, c.tree)
	return time.Now().Add(max(lookInterval, most*time.Since(begin))), err
}

// lookAtChanges acts on what changed. The list of mounts does first when something
// is replaced, but does not tell where.
func (c *concealer) lookAtChanges(mounts bool) error {
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
	for range maxReads {
		n, err := unix.Read(c.events, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 { // among others for want of an inotify
			break
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
		return c.unreached(n, err)
	}
	defer unix.Close(dir)
	return c.visit(dir, n)
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
