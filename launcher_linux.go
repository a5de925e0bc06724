package srt

import (
	"errors"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux"
)

// newLauncher returns the launcher that the configuration asks for.
func newLauncher(cfg *config.Config) (launch.Launcher, error) {
	switch cfg.LinuxBackend() {
	case config.BackendBubblewrap:
		return linux.Bubblewrap{Path: cfg.BwrapPath}, nil
	case config.BackendLandlock:
		return linux.Landlock{}, nil
	}
	return linux.Launcher{}, nil
}

// weakerLauncher returns the launcher that the settings accept in the place of
// one that failed, with what to tell the user; nil if they accept none.
func weakerLauncher(cfg *config.Config, failed error) (launch.Launcher, string) {
	var start *launch.StartError
	if cfg.LinuxBackend() != config.BackendAuto || cfg.Unguarded() || !errors.As(failed, &start) || !linux.NeedsNamespaces(start.Stage) {
		return nil, ""
	}
	if !cfg.EnableWeakerNestedSandbox {
		start.Cure = linux.WithConsent(start.Cure)
		return nil, ""
	}
	note := "namespaces cannot be had here (" + start.Text + "); enableWeakerNestedSandbox lets Landlock confine the command instead"
	if limits := (linux.Landlock{}).Limits(); limits != "" {
		note += ": " + limits
	}
	return linux.Landlock{}, note
}
