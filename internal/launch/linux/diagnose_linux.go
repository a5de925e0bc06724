package linux

import (
	"errors"
	"runtime"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// Question is what a diagnosis is asked: the settings that matter and the
// sandboxes that were set up to find out.
type Question struct {
	// Backend is linux.backend, Weaker enableWeakerNestedSandbox.
	Backend string
	Weaker  bool
	// Native is the outcome of a native sandbox with the built-in settings,
	// Settings that of one with the settings themselves, Warnings what they ask
	// for in vain.
	Native, Settings error
	Warnings         []string
	// Missing names backends that this version does not have, with the reason.
	Missing map[string]string
	// Program is srt's binary, Writable the rule that lets commands change its
	// directory, empty if none.
	Program, Writable string
}

// diagnosis answers one question; it only decides.
type diagnosis struct {
	*Facts
	Question
	// blame is the check that the failure of the native sandbox belongs to, empty
	// if there was none.
	blame              string
	found, cause, cure string
}

// Diagnose decides what the facts mean for the question.
func Diagnose(f *Facts, q Question) *launch.Diagnosis {
	d := &diagnosis{Facts: f, Question: q}
	d.assignBlame()
	answer := &launch.Diagnosis{
		System: runtime.GOOS, Architecture: f.arch, Requested: q.Backend, Backend: d.backend(), CanRun: q.Settings == nil,
		Choices: d.choices(), Warnings: append([]string{}, q.Warnings...), Limits: []string{},
	}
	for _, check := range []func() launch.Check{
		d.checkKernel, d.checkArchitecture, d.checkWSL, d.checkContainer, d.checkNesting, d.checkUser,
		d.checkNamespaces, d.checkMountCalls, d.checkProc, d.checkSeccomp, d.checkNotification, d.checkNative,
		d.checkLandlock, d.checkBubblewrap, d.checkGroups, d.checkProgram, d.checkSettings,
	} {
		answer.Checks = append(answer.Checks, check())
	}
	if q.Settings != nil {
		found, cause, cure := d.explainTrial(q.Settings)
		answer.Cause, answer.Cure = withCause(found, cause), cure
	} else {
		answer.Limits = append(answer.Limits, d.limits(answer.Backend)...)
	}
	return answer
}

// backend is the one that confines commands.
func (d *diagnosis) backend() string {
	switch {
	case d.Settings != nil:
		return ""
	case d.Backend != config.BackendAuto:
		return d.Backend
	case d.Native != nil && d.Weaker:
		return config.BackendLandlock
	}
	return config.BackendNative
}

// explainTrial describes a sandbox that could not be set up.
func (d *diagnosis) explainTrial(err error) (found, cause, cure string) {
	var start *launch.StartError
	if !errors.As(err, &start) {
		return err.Error(), "", "correct what it names: the settings, or the place that srt is started in"
	}
	if !NeedsNamespaces(start.Stage) {
		return "stage " + start.Stage + ": " + start.Text, start.Cause, start.Cure
	}
	cause, cure = d.explain(start)
	if d.Backend == config.BackendAuto && !d.Weaker && d.landlockUsable() {
		cure = alternatively(cure, cureConsent)
	}
	return "stage " + start.Stage + ": " + start.Text, cause, cure
}

// assignBlame finds the check that the failure of the native sandbox belongs to.
func (d *diagnosis) assignBlame() {
	if d.Native == nil {
		return
	}
	d.found, d.cause, d.cure = d.explainTrial(d.Native)
	var start *launch.StartError
	switch {
	case !errors.As(d.Native, &start) || !NeedsNamespaces(start.Stage):
		d.blame = "native"
	case mentionsProc(start):
		d.blame = "proc"
	case start.Stage == "namespaces" || d.wsl == 1 || refused(start):
		d.blame = "user-namespaces"
	default:
		d.blame = "native"
	}
}

func (d *diagnosis) landlockUsable() bool {
	return d.landlock.abi > 0 && d.seccomp.notification == nil
}

// choices describes every backend.
func (d *diagnosis) choices() []launch.Choice {
	native := launch.Choice{Backend: config.BackendNative, Available: d.Native == nil, Note: "namespaces and mounts made by srt itself"}
	if d.Native != nil {
		native.Note = withCause(d.found, d.cause)
	}
	landlock := launch.Choice{Backend: config.BackendLandlock, Available: d.landlockUsable(), Note: d.landlockFound()}
	if d.landlock.abi > 0 && d.seccomp.notification != nil {
		landlock.Note += ", but no calls to srt-init, see above"
	}
	bubblewrap := launch.Choice{Backend: config.BackendBubblewrap, Available: d.bubblewrap.err == nil, Note: d.bubblewrapFound()}
	if reason := d.bubblewrapRefused(); bubblewrap.Available && reason != "" {
		bubblewrap.Available, bubblewrap.Note = false, bubblewrap.Note+", but: "+reason
	}
	all := []launch.Choice{native, landlock, bubblewrap}
	for i := range all {
		if reason := d.Missing[all[i].Backend]; reason != "" {
			all[i].Available, all[i].Note = false, reason
		}
	}
	return all
}

// bubblewrapRefused says why bwrap cannot make namespaces here, empty if it may:
// because it failed, or because what stopped srt stops every program. AppArmor
// has rules for each program.
func (d *diagnosis) bubblewrapRefused() string {
	failed := d.Native
	if d.Backend == config.BackendBubblewrap {
		failed = d.Settings
	} else if d.restrictedByAppArmor == "1" && !d.sandboxed {
		return ""
	}
	var start *launch.StartError
	if !errors.As(failed, &start) || !NeedsNamespaces(start.Stage) {
		return ""
	}
	found, cause, _ := d.explainTrial(failed)
	return withCause(found, cause)
}

// limits are what a backend cannot do on this machine.
func (d *diagnosis) limits(backend string) []string {
	var all []string
	switch backend {
	case config.BackendLandlock:
		all = append(all, landlockLimits[:]...)
		if text := landlockAbove(d.landlock.abi); text != "" {
			all = append(all, "this kernel's Landlock lacks: "+text)
		}
	default:
		all = append(all, "programs that create namespaces themselves, such as rootless containers and the sandboxes of browsers, need allowNestedUserNamespaces")
	}
	if d.groups.err != nil {
		all = append(all, "limits.memory holds for each process, not for all together")
		if d.uid == 0 || backend == config.BackendLandlock {
			all = append(all, "limits.processes cannot be enforced")
		}
	}
	return all
}

// landlockLimits are those of every kernel; docs/linux.md has the details.
var landlockLimits = [...]string{
	"denied files keep their names and metadata: they can be seen, not opened",
	"the network is TCP to srt's proxies: no listening without network.allowLocalBinding, no UDP, no servers of the command's own",
	"the process list and the network interfaces of the machine can be read",
	"extended attributes and inode flags cannot be set",
}

func withCause(found, cause string) string {
	if cause == "" {
		return found
	}
	return found + " (" + cause + ")"
}

// alternatively joins two cures.
func alternatively(cure, other string) string {
	if cure == "" {
		return other
	}
	return cure + "; or " + other
}
