package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	srt "github.com/srt-sandbox/srt"
)

// checkDiagnosis is the script command "diagnosis WHAT=VALUE...": it reads the
// output of the last srt doctor --json. WHAT is canRun, backend, file (the settings) or the
// name of a check, whose value is its state.
func checkDiagnosis(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: diagnosis WHAT=VALUE...")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.DisallowUnknownFields()
	var d diagnosis
	ts.Check(dec.Decode(&d))
	values := map[string]string{"canRun": fmt.Sprint(d.CanRun), "backend": d.Backend, "requestedBackend": d.Requested, "file": d.Settings}
	for _, c := range d.Checks {
		values[c.Name] = string(c.State)
	}
	for _, arg := range args {
		what, want, _ := strings.Cut(arg, "=")
		if got, ok := values[what]; !ok || got != want {
			ts.Fatalf("%s is %q, want %q", what, got, want)
		}
	}
}

func TestFormatDiagnosis(t *testing.T) {
	d := &diagnosis{Settings: "/s.json", Diagnosis: &srt.Diagnosis{
		Requested: "auto", Cause: "no namespaces", Cure: "allow them",
		Checks: []srt.Check{
			{Name: "a", Title: "first", State: srt.CheckOK, Found: "there"},
			{Name: "b", Title: "the second", State: srt.CheckFail, Found: "no namespaces", Cure: "allow them"},
			{Name: "c", Title: "third", State: srt.CheckWarning, Found: "no namespaces either", Cure: "allow them"},
			{Name: "d", Title: "fourth", State: srt.CheckNotApplicable, Found: "no"},
		},
		Choices: []srt.Choice{{Backend: "native", Note: "no namespaces"}, {Backend: "landlock", Available: true, Note: "Landlock version 7"}},
	}}
	const want = `ok       first       there
FAIL     the second  no namespaces
         cure: allow them
warning  third       no namespaces either
         cure: as for the second
-        fourth      no

With /s.json (linux.backend auto) no command can run here: no namespaces
  cure: as for the second, above
Choices of linux.backend:
  native      not here   no namespaces
  landlock    available  Landlock version 7
`
	if got := formatDiagnosis(d, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	colour := formatDiagnosis(d, true)
	if !strings.Contains(colour, "\x1b[31mFAIL   \x1b[0m  the second") || strings.Count(colour, "\x1b[") != 2*len(d.Checks) {
		t.Errorf("with colours:\n%q", colour)
	}
}

func TestDoctorOptions(t *testing.T) {
	for text, want := range map[string]int{
		"doctor --help":              0,
		"doctor --json=1":            statusUsage,
		"doctor --frobnicate":        statusUsage,
		"doctor -s":                  statusUsage,
		"doctor true":                statusUsage,
		"doctor -- true":             statusUsage,
		"doctor --apparmor-profile":  0,
		"doctor -c true":             statusUsage,
		"doctor --exit-code-on-fail": statusUsage,
	} {
		var stdout, stderr bytes.Buffer
		if got := dispatch(strings.Fields(text), &stdout, &stderr); got != want || want != 0 && stderr.Len() == 0 {
			t.Errorf("srt %s: status %d, want %d; stderr %s", text, got, want, &stderr)
		}
	}
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{"/usr/bin/srt": "/usr/bin/srt", "/a b/srt": "'/a b/srt'", "/it's/$(x)": `'/it'\''s/$(x)'`} {
		if got := quote(path); got != want {
			t.Errorf("quote(%q) = %s, want %s", path, got, want)
		}
	}
}

// TestDoctorOptionsAreDocumented keeps the help and the options together.
func TestDoctorOptionsAreDocumented(t *testing.T) {
	for _, f := range doctorFlags() {
		if i := slices.IndexFunc(f.names, func(n string) bool { return !strings.Contains(doctorUsage, n) }); i >= 0 {
			t.Errorf("the help of doctor lacks %s", f.names[i])
		}
	}
}
