package srt

import "github.com/srt-sandbox/srt/internal/launch"

// terminate ends a command: Windows has no signal that asks.
func terminate(box launch.Sandbox) error {
	box.Kill()
	return nil
}
