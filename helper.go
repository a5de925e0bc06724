package srt

import (
	"os"
	"sync/atomic"
)

// sshProxyArgument is how ssh, started by git inside a sandbox, calls the helper.
const sshProxyArgument = "--srt-ssh-proxy"

// helperReady records that main gave this package the chance to take over.
var helperReady atomic.Bool

// MaybeExecHelper lets the program be its own helper: git reaches ssh servers
// from inside a sandbox through it, and it starts the commands of [Cmd.Argv]. Call
// it first thing in main; it returns unless the process was started to be a
// helper. Without the call, or [WithHelper], everything but these two works.
func MaybeExecHelper() {
	helperReady.Store(true)
	switch {
	case len(os.Args) == 4 && os.Args[1] == sshProxyArgument:
		os.Exit(sshProxy(os.Args[2], os.Args[3]))
	case len(os.Args) >= 3 && os.Args[1] == runArgument:
		os.Exit(runForHost(os.Args[2], os.Args[3:]))
	}
}

// readableFiles are the files that programs inside need from srt, whatever a
// read deny covers.
func (s *Sandbox) readableFiles() []string {
	if helper := s.helperPath(); helper != "" {
		return []string{helper}
	}
	return nil
}

// helperPath is the binary that ssh inside a sandbox can use, or empty.
func (s *Sandbox) helperPath() string {
	if s.options.helper != "" {
		return s.options.helper
	}
	if exe, err := os.Executable(); err == nil && helperReady.Load() {
		return exe
	}
	return ""
}
