// The limits of the caller's cgroup are not worth looking for at every start:
// srt moves bytes and waits.

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command srt runs a program so that the operating system itself limits which
// files it reads and writes and which hosts it talks to.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/internal/job"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Exit statuses of srt itself.
const (
	statusRefused = 1 // srt's own failures and refusals, unless --exit-code-on-failure says otherwise
	statusUsage   = 2 // usage errors of subcommands
)

func main() {
	srt.MaybeExecHelper()
	exit(dispatch(os.Args[1:], os.Stdout, sharedFile{os.Stderr}))
}

func exit(status int) {
	if status == job.Interrupted {
		status = job.DieInterrupted()
	}
	os.Exit(status)
}

// dispatch parses the command line, runs what it asks for and returns the exit
// status.
func dispatch(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	m := newMessages(stderr, o.debug)
	switch {
	case err != nil:
		m.fail(err)
		return statusRefused
	case o.version:
		return printText(stdout, version()+"\n", m)
	case o.help:
		return printText(stdout, usage, m)
	case o.subcommand != "":
		return runSubcommand(o, stdout, m)
	}
	status, err := runCommand(o, m)
	if err != nil {
		return m.failStatus(err, o)
	}
	return status
}

// printText prints what was asked for; half of it is a failure.
func printText(stdout io.Writer, text string, m *messages) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		m.fail(fmt.Errorf("writing the answer: %w", err))
		return statusRefused
	}
	return 0
}

// failStatus prints why the command did not run and picks the exit status.
func (m *messages) failStatus(err error, o *options) int {
	var command *srt.CommandError
	if errors.As(err, &command) {
		m.plain("srt: " + violation.Escape(command.Text))
		return command.Status
	}
	m.fail(err)
	var start *srt.StartError
	if errors.As(err, &start) && aboutMachine(start.Stage) {
		m.plain("srt doctor says what this machine offers and what to do about what is missing.")
	}
	return o.failureStatus
}

// aboutMachine reports whether a start that failed at this stage may have failed
// because of what the machine offers.
func aboutMachine(stage string) bool {
	return stage != "changed" && stage != "publish" && stage != "streams" && stage != "resources" && stage != "permissions"
}
