//go:build unix

package proxy

import (
	"errors"

	"golang.org/x/sys/unix"
)

func isResourceShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ECONNABORTED)
}

func isRefused(err error) bool     { return errors.Is(err, unix.ECONNREFUSED) }
func isUnreachable(err error) bool { return errors.Is(err, unix.ENETUNREACH) }
