package linux

import (
	"fmt"
	"os"
	"path"
	"slices"
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
	"bind":        {policy.Create, policy.Create},
	"truncate":    {policy.Write, policy.Write},
	"unlink":      {policy.Remove, policy.Remove},
	"rename from": {policy.RenameFrom, policy.RenameFrom},
	"rename":      {policy.RenameTo, policy.RenameTo},
}

// refusal identifies what was reported.
type refusal struct{ operation, path string }

// maxRefusals bounds how many refusals of one operation a run is remembered for, so
// that a flood of one keeps no other out.
const maxRefusals = 2000

// explain reports an operation that a mount refused, if it is the policy that
// wants that: an error that the caller would have got without a sandbox is no
// violation. Programs that try again are reported once.
func (p *process) explain(body string) {
	f := strings.Split(body, "\x00")
	if len(f) != 4 && (len(f) != 5 || f[0] != inside.OperationRename) {
		return
	}
	pid, err := strconv.Atoi(f[2])
	if err != nil || !path.IsAbs(f[1]) {
		return
	}
	v := launch.Violation{Operation: f[0], Path: f[1], Target: f[1], PID: pid, Process: f[3]}
	switch {
	case v.Operation == inside.OperationRead:
		p.explainRead(v)
	case len(f) == 5:
		p.explainRename(v, f[4])
	default:
		p.explainChange(v.Operation, v, policy.Rule{})
	}
}

// explainRename reports a rename once, by its first name if that was refused, unless
// the second needs a cure of its own.
func (p *process) explainRename(v launch.Violation, source string) {
	if !path.IsAbs(source) {
		return
	}
	from := v
	from.Path, from.Target = source, source
	known := p.explainChange("rename from", from, policy.Rule{})
	p.explainChange(inside.OperationRename, v, known)
}

// explainChange reports a change unless a rule refuses it that is known already. It
// returns the rule; the zero value if there is no refusal.
func (p *process) explainChange(operation string, v launch.Violation, known policy.Rule) policy.Rule {
	ops, ok := operations[operation]
	if !ok || !hostAllows(operation, v.Path) {
		return policy.Rule{}
	}
	op := ops[0]
	if unix.Faccessat(unix.AT_FDCWD, v.Path, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		op = ops[1]
	}
	d := p.request.Policy.Decide(op, v.Path)
	if d.Allow || d.Errno == "EEXIST" {
		return policy.Rule{}
	}
	rule, named := d.Rule, d.Rule.String()
	if rule == (policy.Rule{}) {
		named, rule.Cure = outsideRoots(operation, v.Path, p.request.Home)
		rule.Setting = named
	}
	if rule != known && !p.instead(v) && p.firstRefusal(operation, v.Path) {
		v.Rule, v.Cure = named, rule.Cure
		p.request.Violation(v)
	}
	return rule
}

// instead reports whether a process tries to make a file in a directory in which it
// may not have one without a name either (O_TMPFILE): that is what programs do then,
// under a name that means nothing. Nothing else opens a directory for writing.
func (p *process) instead(v launch.Violation) bool {
	const nameless = "open of a nameless file"
	if v.Operation != "open" {
		return false
	}
	process := strconv.Itoa(v.PID) + "\x00"
	var st unix.Stat_t
	err := unix.Lstat(v.Path, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		p.firstRefusal(nameless, process+v.Path)
	}
	return err == unix.ENOENT && p.refused[refusal{nameless, process + path.Dir(v.Path)}]
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
	if broad && slices.Contains([]string{"open", "mkdir", "truncate"}, operation) {
		return name
	}
	return dir
}

// explainRead reports an open of a hidden place. What the caller could not read
// without a sandbox either, or what does not exist, is no violation.
func (p *process) explainRead(v launch.Violation) {
	place := p.request.Policy.StateAt(v.Path)
	if place.Rule.Entry == policy.SSHDropIns {
		return // every ssh looks there, and misses nothing that would work
	}
	if place.View == policy.Host || unix.Access(v.Path, unix.R_OK) != nil || !p.firstRefusal(v.Operation, v.Path) {
		return
	}
	v.Target, v.Rule, v.Cure = place.Path, place.Rule.String(), place.Rule.Cure
	p.request.Violation(v)
}

// firstRefusal reports whether a refusal is new.
func (p *process) firstRefusal(operation, name string) bool {
	key := refusal{operation, name}
	if p.refused[key] || p.refusals[operation] >= maxRefusals {
		return false
	}
	if p.refused == nil {
		p.refused, p.refusals = map[refusal]bool{}, map[string]int{}
	}
	p.refused[key] = true
	p.refusals[operation]++
	return true
}

// hostAllows reports whether the caller itself could do it.
func hostAllows(operation, name string) bool {
	switch {
	case operation == "truncate", operation == "open" && unix.Access(name, unix.F_OK) == nil:
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
