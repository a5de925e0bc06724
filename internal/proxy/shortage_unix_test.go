//go:build unix

package proxy

import "golang.org/x/sys/unix"

var shortage error = unix.EMFILE
