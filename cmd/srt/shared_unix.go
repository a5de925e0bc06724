//go:build unix

package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sharedFile is a stream that the command may have as well. Whether writing to it
// waits for room or fails is decided by all who have it (O_NONBLOCK belongs to the
// open file, see fcntl(2)): a command must not be able to suppress what srt says.
type sharedFile struct{ file *os.File }

// File is where a writer that tears a line finds the file to mend.
func (f sharedFile) File() *os.File { return f.file }

// roomPoll is how often room is looked for where poll(2) promises it and there is
// none.
const roomPoll = 10 * time.Millisecond

// Write waits for room whatever the flags are.
func (f sharedFile) Write(p []byte) (written int, err error) {
	for {
		n, err := f.file.Write(p[written:])
		written += n
		if !errors.Is(err, unix.EAGAIN) {
			return written, err
		}
		if err := f.awaitRoom(); err != nil {
			return written, err
		}
	}
}

func (f sharedFile) awaitRoom() error {
	raw, err := f.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		time.Sleep(roomPoll)
	})
}
