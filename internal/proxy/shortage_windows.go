package proxy

import (
	"errors"

	"golang.org/x/sys/windows"
)

func isResourceShortage(err error) bool { return errors.Is(err, windows.WSAEMFILE) }
func isRefused(err error) bool          { return errors.Is(err, windows.WSAECONNREFUSED) }
func isUnreachable(err error) bool      { return errors.Is(err, windows.WSAENETUNREACH) }
