//go:build !linux

package srt

import (
	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// newLauncher reports that this system has none yet.
func newLauncher(*config.Config) (launch.Launcher, error) { return nil, launch.ErrUnsupported }

// weakerLauncher returns nothing: there is no launcher that could fail.
func weakerLauncher(*config.Config, error) (launch.Launcher, string) { return nil, "" }
