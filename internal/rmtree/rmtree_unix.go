//go:build unix

package rmtree

import (
	"cmp"
	"crypto/rand"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxDepth is how many directories are open at a time, one in the other. What lies
// deeper is moved up first, so that the time and the descriptors needed do not grow
// with the depth of a tree beyond that.
const maxDepth = 32

// Remove removes a file or a directory with all that is in it. No symbolic link in
// the tree is followed. That there is nothing is no error.
func Remove(path string) error {
	path = filepath.Clean(path)
	dir, err := unix.Open(filepath.Dir(path), directoryFlags, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	r := remover{top: -1}
	if err := r.entry(dir, filepath.Base(path), 0); err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// remover removes one tree.
type remover struct {
	top   int // the tree's own directory
	moved int // how many directories were moved into it
}

// entry removes what has a name in a directory.
func (r *remover) entry(dir int, name string, depth int) error {
	err := unlink(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if e := unlink(dir, name, unix.AT_REMOVEDIR); e == nil || e == unix.ENOENT {
		return nil
	}
	if depth >= maxDepth && r.moveUp(dir, name) {
		return nil
	}
	// Where the name itself has to stay, because it is a mount or its directory is
	// read-only, what is in it goes.
	if e := r.directory(dir, name, depth); e != unix.ENOTDIR && e != unix.ELOOP {
		return e
	}
	return err
}

// directory removes a directory that is not empty.
func (r *remover) directory(dir int, name string, depth int) error {
	fd, err := openDirectory(dir, name)
	if err == unix.ENOENT {
		return nil
	}
	if err == unix.EMFILE && depth > 0 && r.moveUp(dir, name) {
		return nil
	}
	if err != nil {
		return err
	}
	if depth == 0 {
		r.top = fd
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for range maxRounds {
		moved := r.moved
		removed, err := r.contents(f, depth)
		e := unlink(dir, name, unix.AT_REMOVEDIR)
		if e == nil || e == unix.ENOENT {
			return nil
		}
		if !removed && r.moved == moved {
			return cmp.Or(err, e)
		}
		// More was made meanwhile, or moved up here.
		if _, err := f.Seek(0, 0); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// maxRounds bounds how often a directory is read in which somebody makes names all
// the time. A tree of a million directories, one in the other, takes half of them.
const maxRounds = 1 << 16

// batch is how many names are read at a time.
const batch = 1024

// contents goes through a directory once. It reports whether anything in it was
// removed, and the first error.
func (r *remover) contents(f *os.File, depth int) (removed bool, first error) {
	for {
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			if err := r.entry(int(f.Fd()), name, depth+1); err == nil {
				removed = true
			} else if first == nil {
				first = err
			}
		}
		if err != nil || len(names) == 0 {
			return removed, first
		}
	}
}

// moveUp moves a directory to the top of the tree. Where that fails, because the
// disk is full, say, the way down is taken.
func (r *remover) moveUp(dir int, name string) bool {
	if r.top < 0 {
		return false
	}
	target := "srt-" + rand.Text() // the command knows none of the names
	err := unix.Renameat(dir, name, r.top, target)
	if err == unix.EACCES && openUp(dir, name) == nil { // a closed directory cannot be moved
		err = unix.Renameat(dir, name, r.top, target)
	}
	if err != nil {
		return false
	}
	r.moved++
	return true
}

// openDirectory opens a directory that may be closed to its own user.
func openDirectory(dir int, name string) (int, error) {
	fd, err := open(dir, name)
	if err == unix.EACCES && openUp(dir, name) == nil {
		fd, err = open(dir, name)
	}
	var st unix.Stat_t
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // to find and to remove what is in it
	}
	return fd, err
}

func open(dir int, name string) (int, error) {
	return unix.Openat(dir, name, directoryFlags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func unlink(dir int, name string, flags int) error {
	for {
		if err := unix.Unlinkat(dir, name, flags); err != unix.EINTR {
			return err
		}
	}
}
