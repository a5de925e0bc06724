//go:build !linux

package main

import (
	"os"
	"path/filepath"
)

// protectedLog names the file of the log if its name is known.
func protectedLog(f *os.File) []string {
	if filepath.IsAbs(f.Name()) {
		return []string{f.Name()}
	}
	return nil
}
