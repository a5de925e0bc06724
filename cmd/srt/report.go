package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	srt "github.com/srt-sandbox/srt"
)

// report prints the refused operations after the command ended.
type report struct {
	w      io.Writer
	format func(io.Writer, []srt.Violation) error
}

func newReport(o *options, m *messages) (*report, error) {
	r := &report{w: m.w}
	if o.violationsFD != 2 {
		if err := checkWritable(o.violationsFD, fmt.Sprintf("%d>report", o.violationsFD)); err != nil {
			return nil, fmt.Errorf("using --violations-fd %d: %w", o.violationsFD, err)
		}
		r.w = sharedFile{os.NewFile(uintptr(o.violationsFD), "violations")}
	}
	switch o.violations {
	case "always":
		r.format = writeBlock
	case "json":
		r.format = writeJSON
	case "auto":
		if o.violationsFD != 2 || term.IsTerminal(int(os.Stderr.Fd())) {
			r.format = writeSummary
		}
	}
	return r, nil
}

// write prints nothing when nothing was refused. Where a report of its own
// descriptor cannot be written, the messages say so: it would look like none.
func (r *report) write(violations []srt.Violation, m *messages) {
	if r.format == nil || len(violations) == 0 {
		return
	}
	if err := r.format(r.w, violations); err != nil && r.w != m.w {
		m.warn(fmt.Sprintf("%d refused operation(s) could not be reported: %v", violations[len(violations)-1].Seq, err))
	}
}

// writeBlock prints the block that tools look for, whose lines are the events and
// nothing else, and then the cures, each once.
func writeBlock(w io.Writer, violations []srt.Violation) error {
	text := srt.ViolationBlock(violations) + "\n"
	if n := unlisted(violations); n > 0 {
		text += fmt.Sprintf("%d more refused operations are not listed\n", n)
	}
	said := map[string]bool{"": true}
	for _, v := range violations {
		if c := cure(v); !said[c] {
			text += c + "\n"
			said[c] = true
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// unlisted is how many operations were refused that are not held any more.
func unlisted(violations []srt.Violation) uint64 {
	return violations[len(violations)-1].Seq - uint64(len(violations))
}

func writeJSON(w io.Writer, violations []srt.Violation) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, v := range violations {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// builtIn begins the rule of protections that no list of the settings holds.
const builtIn = "built-in "

// cure says what would allow a refused operation, or that nothing does; it is
// empty where the line says it all.
func cure(v srt.Violation) string {
	if v.Setting != "" {
		return "to allow it: " + v.Setting
	}
	if name, ok := strings.CutPrefix(v.Rule, builtIn); ok {
		return "always protected (" + name + "); no entry allows it"
	}
	return ""
}

// writeSummary prints each distinct refusal once, with its count and cure.
func writeSummary(w io.Writer, violations []srt.Violation) error {
	var b strings.Builder
	counts := map[string]int{}
	for _, v := range violations {
		counts[v.Line]++
	}
	fmt.Fprintf(&b, "srt refused %d operation(s):\n", violations[len(violations)-1].Seq)
	for _, v := range violations {
		n := counts[v.Line]
		if n == 0 {
			continue
		}
		delete(counts, v.Line)
		b.WriteString("  " + v.Line)
		if n > 1 {
			fmt.Fprintf(&b, " (%d times)", n)
		}
		b.WriteByte('\n')
		if c := cure(v); c != "" {
			b.WriteString("    " + c + "\n")
		}
	}
	if n := unlisted(violations); n > 0 {
		fmt.Fprintf(&b, "  and %d more, which are not listed\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
