package linux

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
)

// Every message about a sandbox that could not be set up, of a run and of the
// diagnosis, takes its cause and its cure from here.

// Cures that several causes share.
const (
	cureOrdinaryUser = "run srt as an ordinary user"
	cureContainer    = "let the container create namespaces and mount in them: docker or podman run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined; " +
		"in Kubernetes seccompProfile and appArmorProfile of type Unconfined and procMount: Unmasked"
	cureMaskedProc = "run the container with an unmasked /proc: docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, procMount: Unmasked in Kubernetes"
	cureAppArmor   = "give this program an AppArmor profile that allows them (srt doctor --apparmor-profile prints one and how to install it), or lift the restriction for every program with: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)

// cureConsent is the way out that gives up some isolation.
const cureConsent = "set enableWeakerNestedSandbox to true, which lets Landlock confine the command, with weaker isolation"

const (
	alreadyInside = "this process already runs inside a sandbox of srt, which does not allow another one inside"
	cureInside    = "run the command without a second srt: the one around it confines it already"
)

// WithConsent adds to a cure the setting that gives up some isolation, where that is
// one: in a sandbox of srt it leads nowhere.
func WithConsent(cure string) string {
	if readCircumstances().sandboxed {
		return cure
	}
	return alternatively(cure, cureConsent)
}

// startError describes a failed step of a start with what this machine tells
// about the cause.
func startError(stage, text string, err error) *launch.StartError {
	e := &launch.StartError{Stage: stage, Text: text, Err: err}
	if cure := cureShortage(e); cure != "" {
		e.Stage, e.Cure = "resources", cure
	} else if cause, cure := explainForeign(e, os.Geteuid()); cure != "" {
		e.Stage, e.Cause, e.Cure = "permissions", cause, cure
	} else if strings.HasSuffix(e.Text, "seccomp filter: "+unix.EBUSY.Error()) {
		e.Cause, e.Cure = alreadyInside, cureInside
		if !readCircumstances().sandboxed {
			e.Cause, e.Cure = "a sandbox around this process has system calls handed over already, which the kernel allows once", "run srt outside of that sandbox"
		}
	} else if NeedsNamespaces(stage) {
		c := readCircumstances()
		e.Cause, e.Cure = c.explain(e)
	}
	return e
}

// cureShortage says what to do about a lack of something that has nothing to do with
// what this machine allows; no other backend would do better.
func cureShortage(e *launch.StartError) string {
	for _, s := range []struct {
		errno unix.Errno
		cure  string
	}{
		{unix.EMFILE, "raise the limit of open files (ulimit -n)"},
		{unix.ENFILE, "close some programs: the limit of open files of this machine is reached"},
		{unix.EAGAIN, "raise the limit of processes (ulimit -u), or end some"},
		{unix.ENOMEM, "free some memory, or raise the limit of address space (ulimit -v)"},
		{unix.EFBIG, "raise the limit of file sizes (ulimit -f), which holds for what srt hands to the sandbox in memory, too"},
	} {
		if errors.Is(e.Err, s.errno) || strings.Contains(e.Text, s.errno.Error()) {
			return s.cure
		}
	}
	return ""
}

// explainForeign recognises a place that root's sandbox cannot reach because it lies
// in another user's directory: there root's capabilities end. Namespaces are to be
// had, so this is no reason for another backend.
func explainForeign(e *launch.StartError, uid int) (cause, cure string) {
	place, opening := strings.CutPrefix(e.Text, "opening ")
	place, denied := strings.CutSuffix(place, ": "+unix.EACCES.Error())
	if uid != 0 || !opening || !denied {
		return "", ""
	}
	for i := range place {
		var st unix.Stat_t
		if place[i] != '/' || i == 0 || unix.Lstat(place[:i], &st) != nil {
			continue
		}
		if st.Uid != 0 && st.Mode&0o001 == 0 && (st.Gid != 0 || st.Mode&0o010 == 0) {
			return fmt.Sprintf("%s belongs to user %d and is closed to others, which holds for root inside a sandbox", place[:i], st.Uid),
				"run srt as that user, let others search the directory (chmod o+x), or leave the path out of the settings"
		}
	}
	return "", ""
}

// NeedsNamespaces reports whether a machine without usable namespaces fails at
// this stage of a start.
func NeedsNamespaces(stage string) bool {
	return stage == "namespaces" || stage == "mount" || stage == "network"
}

// explain finds why a step that needs namespaces failed, and what can be done
// about it; empty when the error is not about what this machine allows.
func (c *circumstances) explain(e *launch.StartError) (cause, cure string) {
	switch {
	case c.wsl == 1:
		return "WSL 1 has no Linux kernel to confine anything", "convert the distribution, in Windows: wsl --set-version NAME 2"
	case refused(e):
		return c.explainRefusal(e)
	case errors.Is(e.Err, unix.ENOSPC):
		return c.explainLimit()
	case errors.Is(e.Err, unix.EINVAL) && len(c.missingNamespaces) > 0:
		return "this kernel has no namespaces of kind " + strings.Join(c.missingNamespaces, ", "), "use a kernel that was built with them (CONFIG_NAMESPACES, CONFIG_USER_NS)"
	case strings.Contains(e.Text, unix.ENOSYS.Error()):
		return c.explainMissingCall()
	}
	return "", ""
}

// refused recognises an error of permission. What fails inside is known by its
// text only.
func refused(e *launch.StartError) bool {
	return errors.Is(e.Err, unix.EPERM) || errors.Is(e.Err, unix.EACCES) ||
		strings.Contains(e.Text, unix.EPERM.Error()) || strings.Contains(e.Text, unix.EACCES.Error())
}

// mentionsProc recognises a failure to mount the sandbox's own /proc.
func mentionsProc(e *launch.StartError) bool { return strings.Contains(e.Text, "proc file system") }

// explainRefusal goes from what is certain to what is likely.
func (c *circumstances) explainRefusal(e *launch.StartError) (cause, cure string) {
	created := e.Stage != "namespaces" // so what allows their creation is not at fault
	switch {
	case c.sandboxed:
		return alreadyInside, cureInside
	case !created && c.clone == "0" && !c.privileged(unix.CAP_SYS_ADMIN):
		return "kernel.unprivileged_userns_clone is 0", "allow user namespaces with: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case !created && c.chroot:
		return "the kernel refuses user namespaces to a process in a chroot", "run srt outside of the chroot, or enter the directory with bwrap or a container instead"
	case !created && c.uid == 0 && !c.privileged(unix.CAP_SETFCAP) && !c.olderThan(5, 12):
		return "root lacks CAP_SETFCAP, which mapping root into a user namespace needs since Linux 5.12",
			cureOrdinaryUser + ", or grant the capability (docker run --cap-add SETFCAP; CapabilityBoundingSet= of a systemd service)"
	case created && mentionsProc(e) && (c.maskedProc || c.container != ""):
		return "parts of /proc are masked here, so that the kernel refuses to mount a new one", cureMaskedProc
	case c.restrictedByAppArmor == "1" && !c.privileged(unix.CAP_SYS_ADMIN):
		return "kernel.apparmor_restrict_unprivileged_userns is 1: user namespaces of unconfined programs have no capabilities", cureAppArmor
	}
	return c.explainConfinement()
}

// explainConfinement is for refusals of something that confines this process
// already: the kernel does not tell which.
func (c *circumstances) explainConfinement() (cause, cure string) {
	profile, _, _ := strings.Cut(c.appArmor, " ")
	confined := profile != "" && profile != "unconfined" && profile != "kernel" // "kernel" is a label of SELinux
	switch {
	case c.container != "":
		return "the seccomp or AppArmor profile of this container (" + c.container + ") refuses it", cureContainer
	case confined && c.filtered:
		return "the AppArmor profile " + profile + " or a seccomp filter on this process refuses it", cureContainer
	case confined:
		return "the AppArmor profile or security label " + profile + " of this process refuses it", "allow user namespaces (userns,) and mounts in that profile"
	case c.filtered:
		return "a seccomp filter on this process refuses it: a container's, or that of a service with RestrictNamespaces=",
			"for a service set RestrictNamespaces=no; otherwise " + cureContainer
	}
	return "the kernel refuses it and does not say why; most likely a security module", "look at the kernel log (sudo dmesg) for the refusal"
}

func (c *circumstances) explainLimit() (cause, cure string) {
	if len(c.zeroLimits) == 0 {
		return "the limit of namespaces is reached, here or in an enclosing user namespace", "raise it with: sudo sysctl -w user.max_user_namespaces=15000"
	}
	cures := make([]string, len(c.zeroLimits))
	for i, name := range c.zeroLimits {
		cures[i] = name + "=15000"
	}
	verb := " is 0"
	if len(cures) > 1 {
		verb = " are 0"
	}
	return strings.Join(c.zeroLimits, ", ") + verb, "raise the limit with: sudo sysctl -w " + strings.Join(cures, " ")
}

func (c *circumstances) explainMissingCall() (cause, cure string) {
	if c.sandboxed {
		return c.explainRefusal(&launch.StartError{Stage: "mount"})
	}
	if c.olderThan(minimumKernel[0], minimumKernel[1]) {
		return fmt.Sprintf("this kernel (%d.%d) lacks a system call that srt needs", c.kernel[0], c.kernel[1]), cureKernel
	}
	return "a seccomp filter hides a system call that this kernel has", "update the container's manager, or: " + cureContainer
}

// minimumKernel is the oldest version that srt is made for.
var minimumKernel = [2]int{5, 14}

const cureKernel = "use Linux 5.14 or later"
