package srt

import (
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux"
)

func isSupervisor() bool { return linux.IsInit() }
func runSupervisor()     { linux.InitMain() }

// newLauncher returns the launcher of this system.
func newLauncher(o *options) (launch.Launcher, error) {
	if o.helper == "" && !helperReady.Load() {
		return nil, ErrNoHelper
	}
	return linux.Launcher{}, nil
}
