package inside

import (
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// member is one entry of a directory, held by an O_PATH descriptor.
type member struct {
	dir  int
	name string
	fd   int
	stat unix.Stat_t
}

func (m *member) close() { unix.Close(m.fd) }

func (m *member) kind() uint32 { return m.stat.Mode & unix.S_IFMT }

// alone reports whether a file is a regular one without another name, by which
// it could be changed later.
func (m *member) alone() bool { return m.kind() == unix.S_IFREG && m.stat.Nlink == 1 }

// member opens an entry, link or not. What the command could not change is
// none of its doing and passes for missing.
func (n *inspection) member(dir int, name string) *member {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		n.failed = n.failed || err != unix.ENOENT
		return nil
	}
	m := &member{dir: dir, name: name, fd: fd}
	if err := unix.Fstat(fd, &m.stat); err != nil || !n.changeable(m) {
		n.failed = n.failed || err != nil
		m.close()
		return nil
	}
	if m.kind() != unix.S_IFLNK {
		giveBack(fd, &m.stat)
	}
	return m
}

// changeable reports whether the command could change the entry.
func (n *inspection) changeable(m *member) bool {
	if n.rules != nil {
		at := location{dir: m.dir, name: m.name}
		name, e := nameOf(at)
		_, ok := n.rules.mayName(name)
		return e == 0 && (ok || n.shared.mayName(name, at))
	}
	var dir, own unix.Statfs_t
	if unix.Fstatfs(m.dir, &dir) != nil || unix.Fstatfs(m.fd, &own) != nil {
		return true
	}
	return (dir.Flags|own.Flags)&unix.ST_RDONLY == 0
}

// giveBack gives the owner of an object back what is needed to look at it: the
// command took it away, and could give it back in a later run.
func giveBack(fd int, st *unix.Stat_t) {
	want := uint32(0o600)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		want = 0o700
	}
	if st.Mode&want != want && int(st.Uid) == os.Geteuid() {
		_ = unix.Chmod(descriptorPath(fd), st.Mode&0o7777|want)
	}
}

// readAll reads a regular file of at most max bytes.
func (m *member) readAll(max int64) ([]byte, error) {
	if m.kind() != unix.S_IFREG || m.stat.Size > max {
		return nil, errors.New("not a regular file, or too large")
	}
	fd, err := unix.Open(descriptorPath(m.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), m.name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, max))
}

// names lists a directory of at most max entries.
func (m *member) names(max int) ([]string, error) {
	fd, err := unix.Open(descriptorPath(m.fd), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), m.name)
	defer f.Close()
	names, err := f.Readdirnames(max + 1)
	if err == io.EOF {
		return nil, nil
	}
	if err == nil && len(names) > max {
		err = errors.New("too many entries")
	}
	return names, err
}

// setAside takes the plain name first. Somebody may have made that, so the next
// one cannot be foreseen.
func setAside(m *member) (string, error) {
	const longest = 200 // of 255, the rest for what is added
	base := m.name[:min(len(m.name), longest)]
	target := base + blockedSuffix
	err := renameAside(m, target)
	for range 3 {
		if err != unix.EEXIST {
			break
		}
		target = base + blockedSuffix + "-" + rand.Text()[:10]
		err = renameAside(m, target)
	}
	return target, err
}

func renameAside(m *member, target string) error {
	err := unix.Renameat2(m.dir, m.name, m.dir, target, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL && !exists(location{dir: m.dir, name: target}) { // file systems without the flag
		return unix.Renameat(m.dir, m.name, m.dir, target)
	}
	return err
}
