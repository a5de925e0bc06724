package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/internal/violation"
)

// useColour follows the convention of no-color.org.
func useColour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// stateWords are how people read the states; the last is the colour.
func stateWords(s srt.CheckState) (word, colour string) {
	switch s {
	case srt.CheckOK:
		return "ok", "32"
	case srt.CheckWarning:
		return "warning", "33"
	case srt.CheckFail:
		return "FAIL", "31"
	}
	return "-", "2"
}

// formatDiagnosis renders a table of the checks and the conclusion.
func formatDiagnosis(d *diagnosis, colour bool) string {
	var b strings.Builder
	width := 0
	for _, c := range d.Checks {
		width = max(width, len(c.Title))
	}
	said := map[string]string{} // cures, by the first check that has them
	for _, c := range d.Checks {
		word, code := stateWords(c.State)
		word = fmt.Sprintf("%-7s", word)
		if colour {
			word = "\x1b[" + code + "m" + word + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s  %-*s  %s\n", word, width, c.Title, c.Found)
		if c.Cure == "" {
			continue
		}
		cure := c.Cure
		if first, ok := said[cure]; ok {
			cure = "as for " + first
		} else {
			said[cure] = c.Title
		}
		fmt.Fprintf(&b, "%9scure: %s\n", "", cure)
	}
	b.WriteByte('\n')
	formatConclusion(&b, d, said)
	return b.String()
}

func formatConclusion(b *strings.Builder, d *diagnosis, said map[string]string) {
	settings := "the built-in settings"
	if d.Settings != "" {
		settings = d.Settings
	}
	if d.CanRun {
		fmt.Fprintf(b, "With %s (linux.backend %s) commands run here, confined by the %s backend.\n", settings, d.Requested, d.Backend)
	} else {
		fmt.Fprintf(b, "With %s (linux.backend %s) no command can run here: %s\n", settings, d.Requested, d.Cause)
		if first, ok := said[d.Cure]; ok {
			fmt.Fprintf(b, "  cure: as for %s, above\n", first)
		} else if d.Cure != "" {
			fmt.Fprintf(b, "  cure: %s\n", d.Cure)
		}
	}
	if len(d.Limits) > 0 {
		b.WriteString("What it cannot do here:\n")
		for _, l := range d.Limits {
			b.WriteString("  - " + l + "\n")
		}
	}
	b.WriteString("Choices of linux.backend:\n")
	for _, c := range d.Choices {
		state := "not here"
		if c.Available {
			state = "available"
		}
		fmt.Fprintf(b, "  %-10s  %-9s  %s\n", c.Backend, state, c.Note)
	}
}

// sanitizeLines makes a text of several lines one that is safe to print.
func sanitizeLines(s string) string { return violation.Sanitize(strings.ReplaceAll(s, "\n", "; ")) }

// quote makes a path one word of a shell.
func quote(path string) string {
	if !strings.ContainsFunc(path, func(c rune) bool {
		return !strings.ContainsRune("/._-+", c) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
