//go:build !linux

package srt

import (
	"context"

	"github.com/srt-sandbox/srt/config"
)

// diagnose has nothing to look at: this system has no launcher yet.
func diagnose(context.Context, *config.Config) (*Diagnosis, error) {
	return nil, ErrUnsupportedPlatform
}
