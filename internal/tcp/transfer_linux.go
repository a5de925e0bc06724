//go:build !race

package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func read(fd int, p []byte) (int, error)  { return transfer(unix.SYS_READ, fd, p) }
func write(fd int, p []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, p) }

func transfer(call uintptr, fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
