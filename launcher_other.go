//go:build !linux

package srt

import "github.com/srt-sandbox/srt/internal/launch"

// newLauncher says that this system is not supported.
func newLauncher() (launch.Launcher, error) { return nil, launch.ErrUnsupported }
