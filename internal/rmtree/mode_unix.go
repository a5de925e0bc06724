//go:build unix && !linux

package rmtree

import "golang.org/x/sys/unix"

// openUp gives the user of a directory every right to it.
func openUp(dir int, name string) error {
	return unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}
