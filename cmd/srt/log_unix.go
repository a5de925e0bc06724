//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
)

// checkWritable reports why nothing can be written to a descriptor. example is how a
// shell would open it.
func checkWritable(fd int, example string) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("the descriptor is not open; open it in the shell, as in %s", example)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return errors.New("the descriptor is not open for writing")
	}
	return nil
}

func claimDescriptor(fd int) (*os.File, error) {
	if err := checkWritable(fd, "3>>access.log"); err != nil {
		return nil, err
	}
	if fd > 2 { // the command has the standard streams in any case
		unix.CloseOnExec(fd)
	}
	// srt goes on writing to standard error when the log is closed.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "fd:"+strconv.Itoa(fd)), nil
}

// openLogFile opens a file for appending. What an earlier command may have put in
// its place or on the way to it, a link, a device, somebody else's file, is refused.
// dir is the working directory.
func openLogFile(path, dir string, cfg *config.Config) (*os.File, error) {
	home, err := config.Home(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	in := policy.Input{Config: cfg, Cwd: dir, Home: home, UID: os.Geteuid(), FS: policy.OSFS()}
	if path, err = policy.RealPath(context.Background(), in, path); err != nil {
		return nil, err
	}
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	f, err := openWithoutLinks(path, flags, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("it is a symbolic link; name the file itself")
	case errors.Is(err, unix.ENXIO):
		return nil, errNoLogFile
	case err != nil:
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		err = checkLogFile(&st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

var errNoLogFile = errors.New("it is no regular file; open it in the shell and pass it on with --log fd:3")

func checkLogFile(st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errNoLogFile
	case st.Nlink > 1:
		return errors.New("it has other names (hard links), under which a command could change it; copy or remove it")
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Errorf("it belongs to user %d; remove it or name another file", st.Uid)
	}
	return nil
}
