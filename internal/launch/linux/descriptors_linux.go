package linux

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// descriptors collects what a start opens. Nothing is tried after an error.
type descriptors struct {
	all []int
	err error
}

func (d *descriptors) one(fd int, err error) int {
	if err != nil {
		d.err = errors.Join(d.err, err)
		return -1
	}
	d.all = append(d.all, fd)
	return fd
}

func (d *descriptors) pair(fds [2]int, err error) (int, int) {
	if err != nil {
		d.err = errors.Join(d.err, err)
		return -1, -1
	}
	d.all = append(d.all, fds[0], fds[1])
	return fds[0], fds[1]
}

// keep makes a file of a descriptor that outlives the start.
func (d *descriptors) keep(fd int) *os.File {
	d.forget(fd)
	return os.NewFile(uintptr(fd), "bwrap")
}

func (d *descriptors) forget(fd int) {
	d.all = slices.DeleteFunc(d.all, func(other int) bool { return other == fd })
}

func (d *descriptors) close() {
	for _, fd := range d.all {
		unix.Close(fd)
	}
}

// memoryFile returns a descriptor at the start of a file with the text.
func memoryFile(name, text string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for done := 0; done < len(text) && err == nil; {
		var n int
		n, err = unix.Pwrite(fd, []byte(text[done:]), int64(done))
		done += n
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}
