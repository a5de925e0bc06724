package srt

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

func TestDiagnose(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	d, err := Diagnose(t.Context(), config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if !d.CanRun || d.Backend != config.BackendNative || len(d.Checks) == 0 {
		t.Errorf("%+v", d)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the diagnosis left %v behind, %v", left, err)
	}
}

func TestDiagnoseErrors(t *testing.T) {
	invalid := config.Default()
	invalid.Filesystem.AllowWrite = []config.PathEntry{{}}
	var e *config.Error
	if _, err := Diagnose(t.Context(), invalid); !errors.As(err, &e) {
		t.Errorf("with an invalid configuration: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Diagnose(ctx, config.Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}

func TestDiagnosisIsSafeToPrint(t *testing.T) {
	const bad = "a\x1b[31m\nb"
	d := &Diagnosis{Checks: []Check{{Found: bad, Cure: bad}}, Choices: []Choice{{Note: bad}}, Limits: []string{bad}, Warnings: []string{bad}, Cause: bad, Cure: bad}
	sanitizeDiagnosis(d)
	for _, got := range []string{d.Checks[0].Found, d.Checks[0].Cure, d.Choices[0].Note, d.Limits[0], d.Warnings[0], d.Cause, d.Cure} {
		if got != "a [31m b" {
			t.Errorf("%q", got)
		}
	}
}
