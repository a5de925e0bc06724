//go:build !unix

package rmtree

import "os"

// Remove removes a file or a directory with all that is in it.
func Remove(path string) error { return os.RemoveAll(path) }
