package inside

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxRemembered is how many reports the guard remembers, to send each once.
const maxRemembered = 2000

// reports are those that were sent. When there are too many it starts anew: the host
// half folds what comes again, and decides what is worth keeping. A limit here would
// let a command spend it on what is no violation.
type reports map[reported]bool

// reported is one of them, of one thread.
type reported struct {
	thread          int
	operation, name string
}

// first reports whether a caller's operation on a name was not reported yet.
func (r reports) first(c *call, operation, name string) bool {
	key := reported{c.pid, operation, name}
	if r[key] {
		return false
	}
	if len(r) >= maxRemembered {
		clear(r)
	}
	r[key] = true
	return true
}

// refuse reports the attempt and returns its error number. A name that has an
// object keeps the error of the mount that protects it; a missing one is "not
// permitted", which no kernel rule about mounts would say.
func (g *guard) refuse(c *call, operation string, n guarded, existing unix.Errno) unix.Errno {
	g.report(c, operation, n)
	if n.within && n.Exists {
		return unix.EROFS
	}
	if n.Exists || n.there {
		return existing
	}
	return unix.EPERM
}

// report sends one violation to the host half.
func (g *guard) report(c *call, operation string, n guarded) {
	g.send(c, operation, path.Join(n.Dir, n.Name), n.Target, n.Rule, n.Cure)
}

// reportPath is report for a place that a rule of the settings covers.
func (g *guard) reportPath(c *call, operation, name, rule, cure string) {
	g.send(c, operation, name, name, rule, cure)
}

func (g *guard) send(c *call, operation, name, target, rule, cure string) {
	if g.violations.first(c, operation, name) {
		pid, process := caller(c)
		g.tell(MessageViolation, operation, name, target, rule, cure, pid, process)
	}
}

// noted passes an error of the kernel on, and tells the host half of those that
// a mount of the policy may be the reason of.
func (g *guard) noted(c *call, operation string, at location, e unix.Errno) unix.Errno {
	if name, ok := g.mayBeRefusal(at, e); ok && g.errors.first(c, operation, name) {
		pid, process := caller(c)
		g.tell(MessageRefused, operation, name, pid, process)
	}
	return e
}

// notedRename is noted for a call with two names, which is one refusal.
func (g *guard) notedRename(c *call, from, to location, e unix.Errno) unix.Errno {
	source, ok1 := g.mayBeRefusal(from, e)
	target, ok2 := g.mayBeRefusal(to, e)
	if ok1 && ok2 && g.errors.first(c, OperationRename, source+"\x00"+target) {
		pid, process := caller(c)
		g.tell(MessageRefused, OperationRename, target, pid, process, source)
	}
	return e
}

// mayBeRefusal returns the path of a location, if an error there may be one of the
// policy's mounts.
func (g *guard) mayBeRefusal(at location, e unix.Errno) (name string, ok bool) {
	if e != unix.EROFS && e != unix.EBUSY && e != unix.EACCES || g.rules != nil {
		return "", false
	}
	name, unknown := nameOf(at)
	return name, unknown == 0
}

func (g *guard) tell(kind MessageKind, fields ...string) {
	_ = SendMessage(g.control, kind, []byte(strings.Join(fields, "\x00")))
}

// caller returns the number and the name of the calling process, not of the thread
// that made the call: that has a number nobody else knows and often a name of its own.
func caller(c *call) (pid, name string) {
	process, e := threadGroup(c.pid)
	if e != 0 {
		process = c.pid
	}
	return strconv.Itoa(process), processName(process)
}

// processName is what the caller calls itself; it is shown, never trusted.
func processName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(name), "\n"), "\x00", "")
}
