//go:build !linux

package policy

import (
	"io/fs"
	"os"

	"github.com/srt-sandbox/srt/internal/protected"
)

func (osFS) ReadDir(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, d := range list {
		entries = append(entries, Entry{Name: d.Name(), Kind: kindOf(d.Type())})
	}
	return entries, nil
}

func (o osFS) Visit(path string) ([]Entry, protected.Identity, error) {
	entries, err := o.ReadDir(path)
	return entries, o.Identify(path), err
}

func kindOf(m fs.FileMode) Kind {
	switch {
	case m.IsDir():
		return Dir
	case m.IsRegular():
		return File
	case m&fs.ModeSymlink != 0:
		return Symlink
	}
	return Other
}
