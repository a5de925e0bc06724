package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/srt-sandbox/srt/internal/protected"
)

// Kind is what an object of the file system is.
type Kind uint8

// The kinds a policy tells apart.
const (
	Missing Kind = iota
	Dir
	File
	Symlink
	Other // FIFO, socket or device
)

// Info is what a policy needs to know of an object.
type Info struct {
	Kind     Kind
	Mode     fs.FileMode // permission bits
	UID      int
	Dev, Ino uint64
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	Kind Kind
}

// FS is the file system as the calling user sees it. Paths are absolute. Its
// methods may be called at the same time.
type FS interface {
	// Lstat describes an object without following a link in the last component.
	Lstat(path string) (Info, error)
	// Readlink returns the text of a symbolic link.
	Readlink(path string) (string, error)
	// ReadDir lists a directory in any order.
	ReadDir(path string) ([]Entry, error)
	// Visit is ReadDir for a directory that will be known again.
	Visit(path string) ([]Entry, protected.Identity, error)
	// Identify returns the identity of a directory, unknown if there is none.
	Identify(path string) protected.Identity
	// ReadFile returns a regular file of at most max bytes.
	ReadFile(path string, max int64) ([]byte, error)
}

// OSFS returns the file system of this machine.
func OSFS() FS { return osFS{} }

type osFS struct{}

func (osFS) Identify(path string) protected.Identity { return protected.IdentityAt(path) }

func (osFS) Readlink(path string) (string, error) { return os.Readlink(path) }

// ReadFile does not wait for writers of a FIFO that somebody put in the file's place.
func (osFS) ReadFile(path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > max {
		return nil, errors.Join(err, &os.PathError{Op: "read", Path: path, Err: errors.New("not a small regular file")})
	}
	return io.ReadAll(io.LimitReader(f, max))
}

// cachedFS remembers answers for the time of one resolution, so that a policy
// is never assembled from two states of one object, and asks once.
type cachedFS struct {
	FS
	mu    sync.Mutex
	infos map[string]cachedInfo
}

type cachedInfo struct {
	info Info
	err  error
}

func newCachedFS(f FS) *cachedFS { return &cachedFS{FS: f, infos: map[string]cachedInfo{}} }

func (c *cachedFS) Lstat(path string) (Info, error) {
	c.mu.Lock()
	got, ok := c.infos[path]
	c.mu.Unlock()
	if ok {
		return got.info, got.err
	}
	info, err := c.FS.Lstat(path)
	if passing(err) {
		info, err = c.FS.Lstat(path)
	}
	c.mu.Lock()
	c.infos[path] = cachedInfo{info, err}
	c.mu.Unlock()
	return info, err
}

func (c *cachedFS) ReadDir(path string) ([]Entry, error) {
	entries, err := c.FS.ReadDir(path)
	if passing(err) {
		return c.FS.ReadDir(path)
	}
	return entries, err
}

func (c *cachedFS) Visit(path string) ([]Entry, protected.Identity, error) {
	entries, id, err := c.FS.Visit(path)
	if passing(err) {
		return c.FS.Visit(path)
	}
	return entries, id, err
}

// exists reports whether there is something at a path, or may be: what cannot
// be looked at counts.
func (c *cachedFS) exists(path string) bool {
	_, err := c.Lstat(path)
	return err == nil || !absent(err)
}

func (c *cachedFS) kind(path string) Kind {
	info, err := c.Lstat(path)
	if err != nil {
		return Missing
	}
	return info.Kind
}

// absent reports whether an error means that there is no such object, rather
// than that nobody can tell.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || isNotDir(err) || isTooLong(err)
}
