//go:build unix

package srt

import (
	"syscall"

	"github.com/srt-sandbox/srt/internal/launch"
)

// terminate asks a command to end.
func terminate(box launch.Sandbox) error { return box.Signal(syscall.SIGTERM) }
