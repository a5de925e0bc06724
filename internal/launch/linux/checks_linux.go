package linux

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// outcome fills a check that the caller has named.
func outcome(name, title string, state launch.State, found, cure string) launch.Check {
	return launch.Check{Name: name, Title: title, State: state, Found: found, Cure: cure}
}

func (d *diagnosis) checkKernel() launch.Check {
	const name, title = "kernel", "kernel"
	found := d.release + ", made for 5.14 and later"
	switch {
	case !d.olderThan(minimumKernel[0], minimumKernel[1]):
		return outcome(name, title, launch.StateOK, found, "")
	case d.Native == nil:
		return outcome(name, title, launch.StateWarning, found, cureKernel)
	}
	return outcome(name, title, launch.StateFail, found, cureKernel)
}

func (d *diagnosis) checkArchitecture() launch.Check {
	if d.arch == "amd64" || d.arch == "arm64" {
		return outcome("architecture", "architecture", launch.StateOK, d.arch, "")
	}
	return outcome("architecture", "architecture", launch.StateFail, d.arch+": there is no system call filter for it", "use srt on amd64 or arm64")
}

func (d *diagnosis) checkWSL() launch.Check {
	const name, title = "wsl", "Windows subsystem"
	switch d.wsl {
	case 0:
		return outcome(name, title, launch.StateNotApplicable, "no", "")
	case 2:
		return outcome(name, title, launch.StateOK, "WSL 2", "")
	}
	cause, cure := d.explain(&launch.StartError{})
	return outcome(name, title, launch.StateFail, cause, cure)
}

func (d *diagnosis) checkContainer() launch.Check {
	if d.container == "" {
		return outcome("container", "container", launch.StateNotApplicable, "none recognised", "")
	}
	return outcome("container", "container", launch.StateOK, d.container, "")
}

func (d *diagnosis) checkNesting() launch.Check {
	const name, title = "nesting", "inside a sandbox"
	switch {
	case !d.sandboxed:
		return outcome(name, title, launch.StateNotApplicable, "no", "")
	case d.Native == nil:
		return outcome(name, title, launch.StateOK, "inside a sandbox of srt that allows another one", "")
	}
	cause, cure := d.explainRefusal(&launch.StartError{Stage: "namespaces"})
	return outcome(name, title, launch.StateFail, cause, cure)
}

func (d *diagnosis) checkUser() launch.Check {
	if d.uid != 0 {
		return outcome("user", "user", launch.StateOK, fmt.Sprintf("uid %d", d.uid), "")
	}
	return outcome("user", "user", launch.StateWarning, "root: a command may read every file of root that no rule denies", cureOrdinaryUser)
}

func (d *diagnosis) checkNamespaces() launch.Check {
	const name, title = "user-namespaces", "user namespaces"
	if d.blame == name {
		return outcome(name, title, launch.StateFail, withCause(d.found, d.cause), d.cure)
	}
	var start *launch.StartError
	if d.Native != nil && !errors.As(d.Native, &start) {
		return outcome(name, title, launch.StateNotApplicable, "not tried", "")
	}
	return outcome(name, title, launch.StateOK, "created, with capabilities inside", "")
}

func (d *diagnosis) checkMountCalls() launch.Check {
	const name, title = "mount-api", "mount interface"
	var missing []string
	var first error
	for _, call := range []struct {
		name string
		err  error
	}{{"open_tree (Linux 5.2)", d.calls.openTree}, {"move_mount (5.2)", d.calls.moveMount}, {"openat2 (5.6)", d.calls.openat2}} {
		if call.err != nil {
			missing = append(missing, call.name)
			first = call.err
		}
	}
	switch {
	case first != nil:
		text := strings.Join(missing, ", ") + ": " + first.Error()
		cause, cure := d.explainCall(first)
		return outcome(name, title, launch.StateFail, withCause(text, cause), cure)
	case d.calls.mountSetattr != nil:
		cause, cure := d.explainCall(d.calls.mountSetattr)
		return outcome(name, title, launch.StateWarning, withCause("no mount_setattr (Linux 5.12): mounts are changed one by one, which is slower", cause), cure)
	}
	return outcome(name, title, launch.StateOK, "open_tree, move_mount, mount_setattr, openat2", "")
}

// explainCall says why a system call is not to be had.
func (d *diagnosis) explainCall(err error) (cause, cure string) {
	if errors.Is(err, unix.EPERM) {
		return d.explainRefusal(&launch.StartError{Stage: "mount"})
	}
	return d.explainMissingCall()
}

func (d *diagnosis) checkProc() launch.Check {
	const name, title = "proc", "mounting /proc"
	switch d.blame {
	case name:
		return outcome(name, title, launch.StateFail, withCause(d.found, d.cause), d.cure)
	case "":
		return outcome(name, title, launch.StateOK, "permitted", "")
	}
	return outcome(name, title, launch.StateNotApplicable, "not tried: the sandbox failed before", "")
}

const cureSeccomp = "use a kernel built with CONFIG_SECCOMP_FILTER; in a container, let its profile allow seccomp(2)"

func (d *diagnosis) checkSeccomp() launch.Check {
	if d.seccomp.filter != nil {
		return outcome("seccomp", "system call filter", launch.StateFail, "seccomp filters cannot be used: "+d.seccomp.filter.Error(), cureSeccomp)
	}
	return outcome("seccomp", "system call filter", launch.StateOK, "seccomp with filters", "")
}

func (d *diagnosis) checkNotification() launch.Check {
	const name, title = "seccomp-notification", "calls to srt-init"
	switch {
	case errors.Is(d.seccomp.notification, unix.EBUSY):
		return outcome(name, title, launch.StateFail, "another supervisor outside already receives the system calls of this process", "run srt outside of it")
	case d.seccomp.notification != nil:
		return outcome(name, title, launch.StateFail, "seccomp user notification cannot be used: "+d.seccomp.notification.Error(), cureSeccomp)
	}
	var missing []string
	for _, f := range []struct {
		there bool
		text  string
	}{
		{d.seccomp.answerWithFD, "answers with descriptors in one step (Linux 5.14)"},
		{d.seccomp.killableWait, "waiting undisturbed by signals (5.19)"},
		{d.seccomp.syncWakeUp, "fast wake-up (6.6)"},
	} {
		if !f.there {
			missing = append(missing, f.text)
		}
	}
	if len(missing) > 0 {
		return outcome(name, title, launch.StateWarning, "seccomp user notification without: "+strings.Join(missing, ", "), "opening and creating files is slower than with Linux 6.6 or later")
	}
	return outcome(name, title, launch.StateOK, "seccomp user notification, with fast wake-up", "")
}

// checkNative is the throw-away sandbox, as far as no other check has its failure.
func (d *diagnosis) checkNative() launch.Check {
	const name, title = "native", "native sandbox"
	switch d.blame {
	case "":
		return outcome(name, title, launch.StateOK, "set up, ran a program and ended", "")
	case name:
		return outcome(name, title, launch.StateFail, withCause(d.found, d.cause), d.cure)
	}
	return outcome(name, title, launch.StateNotApplicable, "cannot be set up, see above", "")
}

// landlockFeatures are what each version of Landlock brought.
var landlockFeatures = [...]struct {
	abi  int
	text string
}{
	{2, "moving files between directories (Linux 5.19)"},
	{3, "truncation (6.2)"},
	{4, "TCP connections (6.7)"},
	{5, "device controls (6.10)"},
	{6, "signals and abstract Unix sockets (6.12)"},
}

// landlockAbove lists what later versions than abi can restrict.
func landlockAbove(abi int) string {
	var missing []string
	for _, f := range landlockFeatures {
		if abi < f.abi {
			missing = append(missing, f.text)
		}
	}
	return strings.Join(missing, ", ")
}

func (d *diagnosis) landlockFound() string {
	if d.landlock.abi == 0 {
		return "Landlock cannot be used: " + fmt.Sprint(d.landlock.err)
	}
	found := fmt.Sprintf("Landlock version %d", d.landlock.abi)
	if above := landlockAbove(d.landlock.abi); above != "" {
		found += ", without: " + above
	}
	return found
}

func (d *diagnosis) checkLandlock() launch.Check {
	const name, title = "landlock", "Landlock"
	needed := d.Backend == config.BackendLandlock || d.Backend == config.BackendAuto && d.Weaker && d.Native != nil
	switch {
	case d.landlock.abi == 0:
		state := launch.StateWarning
		if needed {
			state = launch.StateFail
		}
		cure := "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK; in a container, let its profile allow the landlock_* calls"
		if errors.Is(d.landlock.err, unix.EOPNOTSUPP) {
			cure = "add landlock to the list lsm= of the kernel's command line and restart the machine"
		}
		return outcome(name, title, state, d.landlockFound(), cure)
	case needed && landlockAbove(d.landlock.abi) != "":
		return outcome(name, title, launch.StateWarning, d.landlockFound(), "use Linux 6.12 or later")
	}
	return outcome(name, title, launch.StateOK, d.landlockFound(), "")
}

func (d *diagnosis) bubblewrapFound() string {
	if d.bubblewrap.err != nil {
		return d.bubblewrap.path + " cannot be used: " + d.bubblewrap.err.Error()
	}
	return d.bubblewrap.path + " " + d.bubblewrap.version
}

func (d *diagnosis) checkBubblewrap() launch.Check {
	const name, title = "bubblewrap", "bubblewrap"
	needed := d.Backend == config.BackendBubblewrap
	switch {
	case d.bubblewrap.err == nil:
		return outcome(name, title, launch.StateOK, d.bubblewrapFound(), "")
	case needed:
		return outcome(name, title, launch.StateFail, d.bubblewrapFound(), "install bubblewrap, name the binary in bwrapPath, or leave linux.backend at auto")
	}
	return outcome(name, title, launch.StateNotApplicable, d.bubblewrapFound()+"; only linux.backend bubblewrap needs it", "")
}

func (d *diagnosis) checkGroups() launch.Check {
	if d.groups.err != nil {
		return outcome("cgroup", "limits by cgroup", launch.StateWarning, d.groups.err.Error(),
			"to limit the memory and processes of everything together, "+groupCure)
	}
	return outcome("cgroup", "limits by cgroup", launch.StateOK, "can be made in "+d.groups.dir, "")
}

func (d *diagnosis) checkProgram() launch.Check {
	const name, title = "program", "srt's own binary"
	if d.Writable == "" {
		return outcome(name, title, launch.StateOK, d.Program, "")
	}
	return outcome(name, title, launch.StateWarning, d.Program+" lies where commands may write ("+d.Writable+")", "install srt outside of the directories that filesystem.allowWrite names")
}

func (d *diagnosis) checkSettings() launch.Check {
	const name, title = "settings", "settings"
	switch {
	case d.Settings != nil:
		found, cause, cure := d.explainTrial(d.Settings)
		return outcome(name, title, launch.StateFail, withCause(found, cause), cure)
	case len(d.Warnings) > 0:
		return outcome(name, title, launch.StateWarning, "a sandbox was set up with them; "+strings.Join(d.Warnings, "; "), "correct or remove the entries that take no effect")
	}
	return outcome(name, title, launch.StateOK, "a sandbox was set up with them", "")
}
