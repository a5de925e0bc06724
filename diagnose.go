package srt

import (
	"context"
	"fmt"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Diagnosis says what this machine offers, which backend confines commands
// with the given configuration, and what is in the way if none can. All of its
// text is safe to print.
type Diagnosis = launch.Diagnosis

// Check is one line of a [Diagnosis].
type Check = launch.Check

// CheckState is the outcome of a [Check].
type CheckState = launch.State

// Choice is one value of linux.backend in a [Diagnosis].
type Choice = launch.Choice

// The outcomes of a [Check].
const (
	CheckOK            = launch.StateOK
	CheckWarning       = launch.StateWarning
	CheckFail          = launch.StateFail
	CheckNotApplicable = launch.StateNotApplicable
)

// Diagnose looks at this machine. It sets sandboxes up with the code of every
// run and the given configuration, runs a program that does nothing in them,
// and leaves nothing behind. That no sandbox can be set up is an answer, not an
// error; errors are an invalid configuration, [ErrUnsupportedPlatform], and the
// end of the context.
func Diagnose(ctx context.Context, cfg *config.Config) (*Diagnosis, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d, err := diagnose(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("looking at what this machine offers: %w", err)
	}
	sanitizeDiagnosis(d)
	return d, nil
}

// sanitizeDiagnosis makes what other programs, files and the kernel said safe
// to print.
func sanitizeDiagnosis(d *Diagnosis) {
	for i := range d.Checks {
		c := &d.Checks[i]
		c.Found, c.Cure = violation.Sanitize(c.Found), violation.Sanitize(c.Cure)
	}
	for i := range d.Choices {
		d.Choices[i].Note = violation.Sanitize(d.Choices[i].Note)
	}
	for _, texts := range [][]string{d.Limits, d.Warnings} {
		for i := range texts {
			texts[i] = violation.Sanitize(texts[i])
		}
	}
	d.Cause, d.Cure = violation.Sanitize(d.Cause), violation.Sanitize(d.Cure)
}
