package config

import (
	"fmt"
	"path/filepath"
)

// DefaultPath is where the settings are when no file is named.
func DefaultPath(home string) string { return filepath.Join(home, ".srt-settings.json") }

// Home returns the user's home directory: HOME (on Windows USERPROFILE) where it
// is an absolute path, whether the directory exists or not, else what the system
// knows about the user. With a relative or empty HOME the working directory
// would supply the policy that confines it.
func Home(lookup func(string) (string, bool)) (string, error) {
	if home, ok := lookup(homeVariable); ok && filepath.IsAbs(home) {
		return home, nil
	}
	home, err := systemHome()
	if err != nil {
		return "", fmt.Errorf("finding the home directory: %s is not an absolute path and the system names none: %w (set %s)", homeVariable, err, homeVariable)
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("finding the home directory: neither %s nor the system's %q is an absolute path (set %s)", homeVariable, home, homeVariable)
	}
	return home, nil
}
