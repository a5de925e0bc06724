//go:build !linux

package srt

import "github.com/srt-sandbox/srt/internal/launch"

func isSupervisor() bool { return false }
func runSupervisor()     {}

// newLauncher says that this system is not supported.
func newLauncher(*options) (launch.Launcher, error) { return nil, launch.ErrUnsupported }
