package srt

import (
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux"
)

// newLauncher returns the launcher of this system.
func newLauncher() (launch.Launcher, error) { return linux.Launcher{}, nil }
