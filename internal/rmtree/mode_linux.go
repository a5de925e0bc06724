package rmtree

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openUp gives the user of a directory every right to it. Before Linux 6.6 the
// kernel changes no mode without following links, but through a descriptor.
func openUp(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}
