package policy

import (
	"encoding/binary"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/protected"
)

// direntSize is how much of a listing is read at a time.
const direntSize = 8 << 10

func (o osFS) ReadDir(path string) ([]Entry, error) {
	entries, _, err := o.list(path, nil)
	return entries, err
}

func (o osFS) Visit(path string) ([]Entry, protected.Identity, error) {
	return o.list(path, protected.IdentityOf)
}

// list asks the kernel directly: searches of big trees spend their time here,
// and os.File costs two calls more a directory.
func (o osFS) list(path string, identify func(fd int) protected.Identity) (_ []Entry, id protected.Identity, _ error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, id, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if identify != nil {
		id = identify(fd)
	}
	entries, err := o.readEntries(fd, path)
	if err != nil {
		return nil, id, &os.PathError{Op: "list", Path: path, Err: err}
	}
	return entries, id, nil
}

func (o osFS) readEntries(fd int, path string) ([]Entry, error) {
	var buf [direntSize]byte // on the stack
	var entries []Entry
	for {
		n, err := unix.Getdents(fd, buf[:])
		switch {
		case err == unix.EINTR: //nolint:errorlint // a bare errno
			continue
		case err != nil:
			return nil, err
		case n <= 0:
			return entries, nil
		}
		if entries, err = o.parseEntries(entries, string(buf[:n]), path); err != nil {
			return nil, err
		}
	}
}

// parseEntries reads the records of struct linux_dirent64: inode, offset,
// length, type and a name that ends with NUL. The names share the memory of raw.
func (o osFS) parseEntries(entries []Entry, raw, path string) ([]Entry, error) {
	const lengthAt, typeAt, nameAt = 16, 18, 19
	for len(raw) > nameAt {
		length := int(binary.NativeEndian.Uint16([]byte(raw[lengthAt:typeAt])))
		if length <= nameAt || length > len(raw) {
			return nil, unix.EIO
		}
		name, _, _ := strings.Cut(raw[nameAt:length], "\x00")
		kind := kindOfType(raw[typeAt])
		raw = raw[length:]
		if name == "." || name == ".." {
			continue
		}
		if kind == Missing { // a file system that keeps no types in directories
			info, err := o.Lstat(child(path, name))
			if err != nil {
				if absent(err) {
					continue
				}
				return nil, err
			}
			kind = info.Kind
		}
		entries = append(entries, Entry{Name: name, Kind: kind})
	}
	return entries, nil
}

func kindOfType(t byte) Kind {
	if t == unix.DT_UNKNOWN {
		return Missing
	}
	return kindOfMode(uint32(t) << 12) // DT_ values are the type bits of st_mode
}
