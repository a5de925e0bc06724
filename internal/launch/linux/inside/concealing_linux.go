package inside

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

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
	planned := n.planned
	n.planned = false
	for deadline := time.Now().Add(concealTimeout); ; {
		fd, err := unix.Openat(dir, n.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, c.unreached(n, err)
		}
		var st unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
			unix.Close(fd)
			return -1, c.unreached(n, err)
		}
		if planned && isMountedDirectory(&st) {
			n.mask = identityOf(&st) // a file system of its own, which the set-up put there
		}
		if c.mayShow(fd, n, &st) {
			return fd, nil
		}
		if old = append(old, fd); len(old) > maxOld {
			closeAll(old[:maxOld])
			old = append(old[:0], fd)
		}
		if err = c.cover(fd, st.Mode&unix.S_IFMT == unix.S_IFDIR); err == nil {
			c.tellOfLink(n, &st)
			return -1, nil
		}
		if err != unix.ENOENT && err != unix.EINVAL && err != unix.EBUSY || time.Now().After(deadline) {
			return -1, fmt.Errorf("hiding %s again, which a program outside replaced while the command ran: %w", n.path, err)
		}
	}
}

// maxOld bounds the removed objects that are held at a time.
const maxOld = 8

// tellOfLink says why a path cannot be used any more that did not have to be hidden
// before.
func (c *concealer) tellOfLink(n *concealed, st *unix.Statx_t) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && !n.told && (n.link != "" || !n.kept) {
		n.told = true
		text := "somebody outside put another symbolic link at " + n.path + ", on the way to something hidden; until the next run the command cannot use it"
		_ = send(c.control, MessageNote, []byte(text), unix.MSG_DONTWAIT, nil) // there are more urgent things
	}
}

// cover puts a blank object on an object.
func (c *concealer) cover(fd int, dir bool) error {
	b := &c.file
	if dir {
		b = &c.dir
	}
	if err := b.prepare(); err != nil {
		return err
	}
	if err := attach(b.next, fd); err != nil {
		return err
	}
	unix.Close(b.next)
	b.next, b.used = -1, true
	return nil
}

// mayShow reports whether an object may be seen at a path.
func (c *concealer) mayShow(fd int, n *concealed, st *unix.Statx_t) bool {
	switch {
	case c.hides(n, st):
		return true
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return n.link != "" && linkSays(fd, n.link) // a directory on the way is none
	default:
		return !n.kept
	}
}

func isMountedDirectory(st *unix.Statx_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// unreached judges that nothing can be found at a path.
func (c *concealer) unreached(n *concealed, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // what comes there, or to the place of a link, is told
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("looking whether %s is still hidden: %w", n.path, err)
	}
	c.blind = true // nobody tells when this changes
	return nil
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

// blank is an object that hides others, with a copy of its mount for the next one.
type blank struct {
	source, next int
	id           object
	used         bool
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
