package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/violation"
	"github.com/srt-sandbox/srt/packaging/apparmor"
)

const doctorUsage = `Usage:
  srt doctor [options]     set a throw-away sandbox up and say what this machine offers,
                           which backend runs here, what it cannot do, and what to do
                           about each row that is not ok

Options:
  -s, --settings FILE      settings file (default: ~/.srt-settings.json, if it exists)
      --strict-settings    refuse settings with unknown keys
      --json               print one JSON object, see docs/linux.md
      --apparmor-profile   print an AppArmor profile that lets this binary create user
                           namespaces, and on stderr how to install it
  -h, --help               print this text

Status 0: a sandbox can run with these settings; 1: none can; 2: wrong usage.
`

// doctorFlags are the options after the word doctor.
func doctorFlags() []flag {
	return []flag{
		{names: []string{"-s", "--settings"}, value: setSettings},
		{names: []string{"--strict-settings"}, set: func(o *options) { o.strict = true }},
		{names: []string{"--json"}, set: func(o *options) { o.json = true }},
		{names: []string{"--apparmor-profile"}, set: func(o *options) { o.profile = true }},
		{names: []string{"-h", "--help"}, set: func(o *options) { o.help = true }},
	}
}

func (o *options) parseDoctor() error {
	known := doctorFlags()
	for args := o.args; len(args) > 0; {
		used, err := o.parseOne(known, args)
		if err != nil {
			return err
		}
		if used == 0 {
			return fmt.Errorf("reading the options of doctor: %q is none; try: srt doctor --help (or srt -- doctor ... for a program of that name)", args[0])
		}
		args = args[used:]
	}
	return nil
}

// runDoctor is srt doctor. What it finds is its output, so it goes to stdout.
func runDoctor(o *options, stdout io.Writer, m *messages) int {
	err := o.parseDoctor()
	switch {
	case err != nil:
		m.fail(err)
		return statusUsage
	case o.help:
		_, err = io.WriteString(stdout, doctorUsage)
	case o.profile:
		err = printProfile(stdout, m)
	default:
		return diagnose(o, stdout, m)
	}
	if err != nil {
		m.fail(err)
		return statusRefused
	}
	return 0
}

// printProfile prints the profile alone to stdout, so that it can be written to
// a file, and the commands that do so to stderr.
func printProfile(stdout io.Writer, m *messages) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the path of this program: %w", err)
	}
	text, err := apparmor.Profile(path)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	m.plain("To install it:")
	for _, command := range apparmor.Install(quote(path) + " doctor --apparmor-profile 2>/dev/null") {
		m.plain("  " + command)
	}
	return nil
}

// diagnosis is what --json prints.
type diagnosis struct {
	Version string `json:"version"`
	// Settings is the file that was to be read; empty for the built-in settings.
	Settings string `json:"settings"`
	*srt.Diagnosis
}

// diagnose prints what was found and returns the exit status.
func diagnose(o *options, stdout io.Writer, m *messages) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, files, settingsErr := loadSettings(o, m)
	if settingsErr != nil {
		cfg = config.Default() // the machine can be looked at all the same
	}
	d, err := srt.Diagnose(ctx, cfg)
	if errors.Is(err, srt.ErrUnsupportedPlatform) {
		m.plain("Error: srt has no launcher for this operating system yet, so that nothing can be run in a sandbox here")
		return statusRefused
	}
	if err == nil {
		p := &diagnosis{Version: version(), Diagnosis: d}
		if len(files) > 1 { // the file that was read, and the standard one
			p.Settings = violation.Sanitize(files[0])
		}
		if settingsErr != nil {
			if path, _, err := settingsPath(o); err == nil {
				p.Settings = violation.Sanitize(path)
			}
			refuseSettings(d, settingsErr)
		}
		err = writeDiagnosis(o, stdout, p)
	}
	switch {
	case err != nil:
		m.fail(err)
		return statusRefused
	case !d.CanRun:
		return statusRefused
	}
	return 0
}

// refuseSettings records that a run would stop at the settings.
func refuseSettings(d *srt.Diagnosis, err error) {
	text := sanitizeLines(err.Error())
	d.CanRun, d.Backend, d.Cause, d.Cure, d.Limits, d.Warnings = false, "", text, "correct the settings", []string{}, []string{}
	for i := range d.Checks {
		if c := &d.Checks[i]; c.Name == "settings" {
			c.State, c.Found, c.Cure = srt.CheckFail, text, d.Cure
		}
	}
}

func writeDiagnosis(o *options, stdout io.Writer, d *diagnosis) error {
	var err error
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(d)
	} else {
		_, err = io.WriteString(stdout, formatDiagnosis(d, useColour(stdout)))
	}
	if err != nil {
		return fmt.Errorf("writing the diagnosis: %w", err)
	}
	return nil
}
