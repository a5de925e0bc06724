// Package violation keeps the operations that a sandbox refused and turns them
// into text that is safe to show: names and paths in it come from inside.
package violation

import (
	"strings"
	"time"
)

// Event is one refused operation.
type Event struct {
	// Seq counts the events of one store from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Line is the event as one line, for example
	// "deny network-outbound example.com:443 (host is not on the allow list)".
	Line string `json:"line"`
	// Op and Target are the operation and what it concerned.
	Op     string `json:"op,omitempty"`
	Target string `json:"target,omitempty"`
	// Spelling is the target as the command wrote it, where that differs.
	Spelling string `json:"spelling,omitempty"`
	// Rule is the setting that decided, Setting says which one would allow it.
	Rule    string `json:"rule,omitempty"`
	Setting string `json:"setting,omitempty"`
	// Command is the text of the command, CommandID its random name.
	Command   string `json:"command,omitempty"`
	CommandID string `json:"commandId,omitempty"`
	// PID and Process are the process inside that tried, where it is known.
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"`
}

// Block renders events as the tagged block that tools put behind a command's
// error output. It is empty without events and has no newline at its end. Lines
// are made safe again, so that no event, wherever it comes from, closes the block.
func Block(events []Event) string {
	if len(events) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<sandbox_violations>\n")
	for _, e := range events {
		b.WriteString(Sanitize(e.Line))
		b.WriteByte('\n')
	}
	b.WriteString("</sandbox_violations>")
	return b.String()
}
