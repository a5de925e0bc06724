//go:build !linux

package main

import (
	"os"
	"path/filepath"
)

// openWithoutLinks opens a path that had no links a moment ago.
func openWithoutLinks(path string, flags int, mode uint64) (*os.File, error) {
	return os.OpenFile(path, flags, os.FileMode(mode))
}

// protectedLog names the file of the log if its name is known.
func protectedLog(f *os.File) []string {
	if filepath.IsAbs(f.Name()) {
		return []string{f.Name()}
	}
	return nil
}
