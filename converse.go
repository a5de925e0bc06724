package srt

import (
	"context"
	"io"

	"github.com/srt-sandbox/srt/internal/launch"
)

// ErrNoTerminal says that this process has no controlling terminal.
var ErrNoTerminal = launch.ErrNoTerminal

// Converse stops the command, takes the controlling terminal of this process,
// which the command may have, and calls fn with it: for a question of [WithAsk],
// for example. The terminal edits and shows lines; what was typed before is
// dropped, and Ctrl-C and Ctrl-\ end a line as the bytes 0x03 and 0x1c. Then the
// terminal is given back as it was and the command goes on, with the signal of
// such a key if there was one. Conversations of one command come one after the
// other.
//
// The context that fn gets ends with ctx, with the command, and when the command
// did not stay stopped; reading then fails, and soon writing. The terminal also has
// the deadlines of [os.File]. The error is that of fn, or says why fn
// was not called, such as [ErrNoTerminal], or why its result must not be used.
func (c *Cmd) Converse(ctx context.Context, fn func(ctx context.Context, terminal io.ReadWriter) error) error {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return ErrNotStarted
	}
	return r.box.Converse(ctx, fn)
}
