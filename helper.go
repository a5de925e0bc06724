package srt

import (
	"os"
	"sync/atomic"
)

// sshProxyArgument is how ssh, started by git inside a sandbox, calls the helper.
const sshProxyArgument = "--srt-ssh-proxy"

// helperReady records that main gave this package the chance to take over.
var helperReady atomic.Bool

// MaybeExecHelper turns this process into one of the package's helpers if it
// was started as one, and returns otherwise. Call it first thing in main,
// before anything reads arguments or opens files.
func MaybeExecHelper() {
	if isSupervisor() {
		runSupervisor() // never returns
	}
	if len(os.Args) == 4 && os.Args[1] == sshProxyArgument {
		os.Exit(sshProxy(os.Args[2], os.Args[3]))
	}
	helperReady.Store(true)
}
