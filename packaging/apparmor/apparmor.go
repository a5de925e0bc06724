// Package apparmor holds the AppArmor profile that lets srt create user
// namespaces where the system keeps them from programs without a profile.
package apparmor

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
)

//go:embed srt
var profile string

// standardPath is where the profile in the repository expects the binary.
const standardPath = "/usr/local/bin/srt"

// Profile returns the profile for a binary at another path.
func Profile(path string) (string, error) {
	if !filepath.IsAbs(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return "", fmt.Errorf("writing an AppArmor profile for %q: not an absolute path of printable characters; install srt at one", path)
	}
	return strings.Replace(profile, `"`+standardPath+`"`, `"`+escape(path)+`"`, 1), nil
}

// Install is the two commands that install a profile which the given command
// prints.
func Install(printer string) []string {
	return []string{
		printer + " | sudo tee /etc/apparmor.d/srt >/dev/null",
		"sudo apparmor_parser -r /etc/apparmor.d/srt",
	}
}

// escape makes the characters that mean something in AppArmor's paths literal.
func escape(path string) string {
	var b strings.Builder
	for _, c := range path {
		if strings.ContainsRune(`\"*?[]{}^@`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
