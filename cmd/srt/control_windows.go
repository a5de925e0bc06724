package main

import (
	"errors"

	srt "github.com/srt-sandbox/srt"
)

// control is not available: Windows has no inherited descriptors by number.
type control struct{}

func openControl(fd int, _ *messages) (*control, error) {
	if fd == 0 {
		return nil, nil
	}
	return nil, errors.New("using --control-fd: not available on Windows")
}

func (c *control) follow(*srt.Sandbox, func(error)) {}

func endByControl(cmd *srt.Cmd) { _ = cmd.Kill() }
