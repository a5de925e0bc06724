// Package job is what a process needs that stands between its caller and a
// sandboxed command: it hands signals down and the command's end up.
package job

import (
	"os"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/internal/launch"
)

// Grace is how long a command may take to end after a signal that asks it to.
const Grace = 2 * time.Second

// lastWords is how long the rest may take after the end of a command that was asked
// to end. It is longer than closing the network filter or the access log takes.
const lastWords = 5 * time.Second

// Interrupted is no status: Ctrl-C ended the command and is to end this process,
// see [DieInterrupted].
const Interrupted = -1

// Command is what a [Relay] passes signals to.
type Command interface {
	Signal(os.Signal) error
	Kill() error
}

// Status is what to exit with after a command's end. A command that had to be
// killed after a signal counts as ended by that signal. On a terminal this
// process ends by SIGINT as the command did: a shell ends its loop or script only
// then.
func (r *Relay) Status(end launch.Status) int {
	status := end.ShellCode()
	if n := r.escalated(); n != 0 && end.Signal == int(syscall.SIGKILL) {
		status = 128 + n
	}
	if end.Signal != 0 && status == 128+int(syscall.SIGINT) && inForeground() {
		return Interrupted
	}
	return status
}
