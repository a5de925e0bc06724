package linux

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

// operations are what srt-init calls the operations that a mount can refuse. The
// second is asked about where the path exists.
var operations = map[string][2]policy.Op{
	"open":        {policy.Create, policy.Write},
	"mkdir":       {policy.Create, policy.Create},
	"mknod":       {policy.Create, policy.Create},
	"symlink":     {policy.Create, policy.Create},
	"link":        {policy.Create, policy.Create},
	"unlink":      {policy.Remove, policy.Remove},
	"rename from": {policy.RenameFrom, policy.RenameFrom},
	"rename":      {policy.RenameTo, policy.RenameTo},
}

// refusal identifies what was reported.
type refusal struct{ operation, path string }

// maxRefusals bounds what one run is remembered for.
const maxRefusals = 2000

// explain reports an operation that a mount refused, if it is the policy that
// wants that: an error that the caller would have got without a sandbox is no
// violation. Programs that try again are reported once.
func (p *process) explain(body string) {
	f := strings.Split(body, "\x00")
	if len(f) != 4 {
		return
	}
	operation, name := f[0], f[1]
	pid, err := strconv.Atoi(f[2])
	if operation == inside.OperationRead && err == nil && path.IsAbs(name) {
		p.explainRead(name, pid, f[3])
		return
	}
	ops, ok := operations[operation]
	if !ok || err != nil || !path.IsAbs(name) {
		return
	}
	if !hostAllows(operation, name) {
		return
	}
	op := ops[0]
	if unix.Faccessat(unix.AT_FDCWD, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		op = ops[1]
	}
	d := p.request.Policy.Decide(op, name)
	if d.Allow || d.Errno == "EEXIST" || !p.firstRefusal(operation, name) {
		return
	}
	v := launch.Violation{Operation: strings.TrimSuffix(operation, " from"), Path: name, Target: name, Rule: d.Rule.String(), Cure: d.Rule.Cure, PID: pid, Process: f[3]}
	if d.Rule == (policy.Rule{}) {
		v.Rule, v.Cure = outsideRoots(operation, name, p.request.Home)
	}
	p.request.Violation(v)
}

// outsideRoots is what refuses a change that no entry of the settings is about.
func outsideRoots(operation, name, home string) (rule, cure string) {
	return "filesystem.allowWrite", fmt.Sprintf("add %q to filesystem.allowWrite", wanted(operation, name, home))
}

// wanted is the entry that would allow an operation: the directory, because more
// is often to come there, unless it holds much that has nothing to do with it.
func wanted(operation, name, home string) string {
	dir := path.Dir(name)
	broad := dir == "/" || path.Dir(dir) == "/" || dir == home || inside.Beneath(dir, home)
	if broad && (operation == "open" || operation == "mkdir") {
		return name
	}
	return dir
}

// explainRead reports an open of a hidden place. What the caller could not read
// without a sandbox either, or what does not exist, is no violation.
func (p *process) explainRead(name string, pid int, process string) {
	place := p.request.Policy.StateAt(name)
	if place.View == policy.Host || unix.Access(name, unix.R_OK) != nil || !p.firstRefusal(inside.OperationRead, name) {
		return
	}
	p.request.Violation(launch.Violation{Operation: inside.OperationRead, Path: name, Target: place.Path,
		Rule: place.Rule.String(), Cure: place.Rule.Cure, PID: pid, Process: process})
}

// firstRefusal reports whether a refusal is new.
func (p *process) firstRefusal(operation, name string) bool {
	key := refusal{operation, name}
	if p.refused[key] || len(p.refused) >= maxRefusals {
		return false
	}
	if p.refused == nil {
		p.refused = map[refusal]bool{}
	}
	p.refused[key] = true
	return true
}

// hostAllows reports whether the caller itself could do it.
func hostAllows(operation, name string) bool {
	switch {
	case operation == "open" && unix.Access(name, unix.F_OK) == nil:
		return unix.Access(name, unix.W_OK) == nil
	case operation == "unlink" && holdsNames(name):
		return false // programs try, and expect that it fails
	case (operation == "unlink" || operation == "rename from") && (absent(name) || kept(name)):
		return false
	}
	return unix.Access(path.Dir(name), unix.W_OK) == nil
}

// holdsNames reports whether it is a directory that is not empty.
func holdsNames(name string) bool {
	dir, err := os.OpenFile(name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err == nil
}

// absent reports whether there is nothing to take away. A read-only mount refuses
// before it looks.
func absent(name string) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
}

// kept reports whether a name in a directory such as /tmp is another user's,
// which only its owner can take away.
func kept(name string) bool {
	var dir, st unix.Stat_t
	if unix.Stat(path.Dir(name), &dir) != nil || dir.Mode&unix.S_ISVTX == 0 || unix.Lstat(name, &st) != nil {
		return false
	}
	me := uint32(os.Geteuid())
	return me != 0 && me != st.Uid && me != dir.Uid
}
