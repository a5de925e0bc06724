package inside

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxViolations is how many the guard reports, of both kinds together.
const maxViolations = 2000

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

// report sends one violation to the host half. A noisy command stops being
// reported, never being refused.
func (g *guard) report(c *call, operation string, n guarded) {
	g.send(c, operation, path.Join(n.Dir, n.Name), n.Target, n.Rule, n.Cure)
}

// reportPath is report for a place that a rule of the settings covers.
func (g *guard) reportPath(c *call, operation, name, rule, cure string) {
	g.send(c, operation, name, name, rule, cure)
}

func (g *guard) send(c *call, operation, name, target, rule, cure string) {
	if g.sent >= maxViolations {
		return
	}
	g.sent++
	fields := []string{operation, name, target, rule, cure, strconv.Itoa(c.pid), processName(c.pid)}
	_ = SendMessage(g.control, MessageViolation, []byte(strings.Join(fields, "\x00")))
}

// noted passes an error of the kernel on, and tells the host half of those that
// a mount of the policy may be the reason of.
func (g *guard) noted(c *call, operation string, at location, e unix.Errno) unix.Errno {
	if e != unix.EROFS && e != unix.EBUSY && e != unix.EACCES || g.rules != nil || g.sent >= maxViolations {
		return e
	}
	name, unknown := nameOf(at)
	if unknown != 0 {
		return e
	}
	g.sent++
	fields := []string{operation, name, strconv.Itoa(c.pid), processName(c.pid)}
	_ = SendMessage(g.control, MessageRefused, []byte(strings.Join(fields, "\x00")))
	return e
}

// processName is what the caller calls itself; it is shown, never trusted.
func processName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(name), "\n"), "\x00", "")
}
