package main

import (
	"fmt"
	"io"

	"github.com/srt-sandbox/srt/config"
)

// runSubcommand runs one of srt's own commands.
func runSubcommand(o *options, stdout io.Writer, m *messages) int {
	switch o.subcommand {
	case "config":
		if len(o.args) == 1 && o.args[0] == "schema" {
			if _, err := stdout.Write(config.Schema()); err != nil {
				m.fail(fmt.Errorf("writing the schema: %w", err))
				return statusRefused
			}
			return 0
		}
		m.plain("Error: unknown use of config; try: srt config schema (or srt -- config ... for a program of that name)")
		return statusUsage
	case "doctor":
		return runDoctor(o, stdout, m)
	case "proxy":
		m.plain("Error: this version has no stand-alone proxy (srt -- proxy runs a program of that name)")
		return statusUsage
	default:
		m.plain("Error: " + o.subcommand + " works only on Windows")
		return statusRefused
	}
}
