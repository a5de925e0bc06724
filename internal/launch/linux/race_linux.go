//go:build race

package linux

import "os"

// The race detector sleeps at the end of each process unless it is told not to.
// Tests start thousands; srt-init inherits nothing else.
func init() {
	if v := os.Getenv("GORACE"); v != "" {
		initEnvironment = append(initEnvironment, "GORACE="+v)
	}
}
