package srt

import (
	"errors"

	"github.com/srt-sandbox/srt/config"
)

const (
	needsTermination = "this version does not terminate TLS; remove the setting to run without it"
	needsMasks       = "this version cannot substitute credentials; use mode \"deny\""
)

// checkSupported refuses settings that the filter or the launcher does not
// implement.
func checkSupported(c *config.Config) error {
	for _, f := range []struct {
		set             bool
		setting, reason string
	}{
		{c.Network.TLSTerminate != nil, "network.tlsTerminate", needsTermination},
		{masksFiles(c), "credentials.files with mode \"mask\"", needsMasks},
		{masksVariables(c), "credentials.envVars with mode \"mask\"", needsMasks},
	} {
		if f.set {
			return &UnsupportedError{Setting: f.setting, Reason: f.reason}
		}
	}
	return errors.Join(checkHostPorts(c), checkPublish(c, nil), checkGuard(c))
}

func masksFiles(c *config.Config) bool {
	if c.Credentials == nil {
		return false
	}
	for _, f := range c.Credentials.Files {
		if f.Mode == "mask" {
			return true
		}
	}
	return false
}

func masksVariables(c *config.Config) bool {
	if c.Credentials == nil {
		return false
	}
	for _, v := range c.Credentials.EnvVars {
		if v.Mode == "mask" {
			return true
		}
	}
	return false
}
