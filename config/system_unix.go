//go:build unix

package config

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const homeVariable = "HOME"

// systemHome asks the user database by number: user.Current would believe HOME.
func systemHome() (string, error) {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// symbol names the system's error the way scripts match on it.
func symbol(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		if name := unix.ErrnoName(e); name != "" {
			return " (" + name + ")"
		}
	}
	return ""
}
