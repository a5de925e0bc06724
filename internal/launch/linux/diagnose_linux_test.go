package linux

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// goodFacts are those of a machine on which everything is to be had.
func goodFacts() *Facts {
	return &Facts{
		circumstances: circumstances{uid: 1000, kernel: [2]int{6, 18}, appArmor: "unconfined"},
		release:       "6.18.1", arch: "amd64",
		seccomp:    seccompFacts{killableWait: true, answerWithFD: true, syncWakeUp: true},
		landlock:   landlockFacts{abi: 7},
		groups:     groupFacts{dir: "/sys/fs/cgroup/user.slice"},
		bubblewrap: bubblewrapFacts{path: "/usr/bin/bwrap", version: "0.11.0"},
	}
}

// Failures of the native sandbox as the launcher reports them.
var (
	noNamespaces = &launch.StartError{Stage: "namespaces", Text: "creating the namespaces: operation not permitted", Err: unix.EPERM}
	noRoom       = &launch.StartError{Stage: "namespaces", Text: "creating the namespaces: no space left on device", Err: unix.ENOSPC}
	noKind       = &launch.StartError{Stage: "namespaces", Text: "creating the namespaces: invalid argument", Err: unix.EINVAL}
	noMounts     = &launch.StartError{Stage: "mount", Text: "making the mount tree private: permission denied"}
	noProc       = &launch.StartError{Stage: "mount", Text: "mounting a proc file system: operation not permitted"}
	noCall       = &launch.StartError{Stage: "mount", Text: "copying the mount of /: function not implemented"}
	noFilter     = &launch.StartError{Stage: "privileges", Text: "installing the seccomp filter: invalid argument"}
)

// rowTest gives a check the facts that make it red, or yellow.
type rowTest struct {
	name        string
	change      func(*Facts)
	question    Question
	check       string
	state       launch.State
	found, cure string // a regular expression, and a part
	canRun      bool
}

func (test rowTest) run(t *testing.T) {
	f := goodFacts()
	if test.change != nil {
		test.change(f)
	}
	if test.question.Backend == "" {
		test.question.Backend = config.BackendAuto
	}
	d := Diagnose(f, test.question)
	i := slices.IndexFunc(d.Checks, func(c launch.Check) bool { return c.Name == test.check })
	if i < 0 {
		t.Fatalf("no check %q in %+v", test.check, d.Checks)
	}
	c := d.Checks[i]
	if c.State != test.state || !regexp.MustCompile(test.found).MatchString(c.Found) || !strings.Contains(c.Cure, test.cure) || (c.Cure == "") != (test.cure == "") {
		t.Errorf("got %+v\nwant state %s, found %q, cure %q", c, test.state, test.found, test.cure)
	}
	if d.CanRun != test.canRun || d.CanRun != (d.Backend != "") || d.CanRun != (d.Cause == "") {
		t.Errorf("canRun %v, backend %q, cause %q; want canRun %v", d.CanRun, d.Backend, d.Cause, test.canRun)
	}
}

func runRows(t *testing.T, tests []rowTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, test.run)
	}
}

// failing is the question on a machine whose native sandbox fails.
func failing(err error) Question { return Question{Native: err, Settings: err} }

func TestRowsOfTheMachine(t *testing.T) {
	runRows(t, []rowTest{
		{name: "old kernel that works", change: func(f *Facts) { f.kernel, f.release = [2]int{5, 10}, "5.10.0" },
			check: "kernel", state: launch.StateWarning,
			found: "5.10.0", cure: "Linux 5.14", canRun: true},
		{name: "old kernel that does not", change: func(f *Facts) { f.kernel, f.release = [2]int{4, 18}, "4.18.0" },
			question: failing(noCall), check: "kernel", state: launch.StateFail,
			found: "4.18.0", cure: "Linux 5.14"},
		{name: "architecture", change: func(f *Facts) { f.arch = "riscv64" },
			check: "architecture", state: launch.StateFail,
			found: "riscv64", cure: "amd64 or arm64", canRun: true},
		{name: "WSL 1", change: func(f *Facts) { f.wsl = 1 },
			question: failing(noNamespaces), check: "wsl", state: launch.StateFail,
			found: "no Linux kernel", cure: "wsl --set-version"},
		{name: "inside srt", change: func(f *Facts) { f.sandboxed = true },
			question: failing(noNamespaces), check: "nesting", state: launch.StateFail,
			found: "already runs inside", cure: "without a second srt"},
		{name: "root", change: func(f *Facts) { f.uid = 0 },
			check: "user", state: launch.StateWarning,
			found: "root", cure: "ordinary user", canRun: true},
		{name: "no cgroup", change: func(f *Facts) { f.groups = groupFacts{err: errNoGroup("the memory controller is not enabled in /x")} },
			check: "cgroup", state: launch.StateWarning,
			found: "memory controller is not enabled", cure: "systemd-run --user --scope", canRun: true},
	})
}

func TestRowsOfNamespaces(t *testing.T) {
	runRows(t, []rowTest{
		{name: "inside srt, the trial", change: func(f *Facts) { f.sandboxed = true },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "stage namespaces: .*already runs inside", cure: "without a second srt"},
		{name: "inside srt, its filter", change: func(f *Facts) { f.sandboxed, f.calls.openat2 = true, unix.ENOSYS },
			question: failing(noNamespaces), check: "mount-api", state: launch.StateFail,
			found: "already runs inside", cure: "without a second srt"},
		{name: "another user's directory", change: func(f *Facts) { f.uid = 0 },
			question: Question{Settings: &launch.StartError{Stage: "permissions", Text: "opening /x/y: permission denied", Cause: "/x belongs to user 7", Cure: "run srt as that user"}},
			check:    "settings", state: launch.StateFail, found: "/x belongs to user 7", cure: "as that user"},
		{name: "limit of user namespaces", change: func(f *Facts) { f.zeroLimits = []string{"user.max_user_namespaces"} },
			question: failing(noRoom), check: "user-namespaces", state: launch.StateFail,
			found: "user.max_user_namespaces is 0", cure: "sudo sysctl -w user.max_user_namespaces=15000"},
		{name: "limit of two kinds", change: func(f *Facts) { f.zeroLimits = []string{"user.max_net_namespaces", "user.max_pid_namespaces"} },
			question: failing(noRoom), check: "user-namespaces", state: launch.StateFail,
			found: "are 0", cure: "user.max_net_namespaces=15000 user.max_pid_namespaces=15000"},
		{name: "limit outside", question: failing(noRoom),
			check: "user-namespaces", state: launch.StateFail,
			found: "enclosing user namespace", cure: "user.max_user_namespaces=15000"},
		{name: "no kind of namespace", change: func(f *Facts) { f.missingNamespaces = []string{"user"} },
			question: failing(noKind), check: "user-namespaces", state: launch.StateFail,
			found: "no namespaces of kind user", cure: "CONFIG_USER_NS"},
		{name: "unprivileged_userns_clone", change: func(f *Facts) { f.clone = "0" },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "kernel.unprivileged_userns_clone is 0", cure: "sysctl -w kernel.unprivileged_userns_clone=1"},
		{name: "AppArmor, creation", change: func(f *Facts) { f.restrictedByAppArmor = "1" },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "apparmor_restrict_unprivileged_userns is 1", cure: "srt doctor --apparmor-profile"},
		{name: "AppArmor, no capabilities", change: func(f *Facts) { f.restrictedByAppArmor = "1" },
			question: failing(noMounts), check: "user-namespaces", state: launch.StateFail,
			found: "stage mount: .*have no capabilities", cure: "kernel.apparmor_restrict_unprivileged_userns=0"},
		{name: "root without CAP_SETFCAP", change: func(f *Facts) { f.uid, f.effective = 0, 1<<unix.CAP_SYS_ADMIN },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "root lacks CAP_SETFCAP", cure: "ordinary user, or grant"},
		{name: "chroot", change: func(f *Facts) { f.chroot = true },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "chroot", cure: "outside of the chroot"},
		{name: "container, creation", change: func(f *Facts) { f.container, f.filtered = "docker", true },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "profile of this container \\(docker\\)", cure: "seccomp=unconfined"},
		{name: "container, mounts", change: func(f *Facts) { f.container, f.appArmor = "podman", "containers-default (enforce)" },
			question: failing(noMounts), check: "user-namespaces", state: launch.StateFail,
			found: "container \\(podman\\)", cure: "apparmor=unconfined"},
		{name: "container that is not known", change: func(f *Facts) { f.filtered, f.appArmor = true, "docker-default (enforce)" },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "the AppArmor profile docker-default or a seccomp filter", cure: "seccomp=unconfined"},
		{name: "service", change: func(f *Facts) { f.filtered = true },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "a seccomp filter on this process", cure: "RestrictNamespaces=no"},
		{name: "profile of its own", change: func(f *Facts) { f.appArmor = "srt (enforce)" },
			question: failing(noNamespaces), check: "user-namespaces", state: launch.StateFail,
			found: "label srt of this process", cure: "in that profile"},
		{name: "no reason", question: failing(noNamespaces),
			check: "user-namespaces", state: launch.StateFail,
			found: "does not say why", cure: "dmesg"},
		{name: "masked /proc", change: func(f *Facts) { f.maskedProc = true },
			question: failing(noProc), check: "proc", state: launch.StateFail,
			found: "stage mount: .*parts of /proc are masked", cure: "systempaths=unconfined"},
	})
}

func TestRowsOfTheKernelInterfaces(t *testing.T) {
	runRows(t, []rowTest{
		{name: "missing call, old kernel", change: func(f *Facts) { f.kernel = [2]int{4, 18} },
			question: failing(noCall), check: "native", state: launch.StateFail,
			found: "this kernel .4.18. lacks a system call", cure: "Linux 5.14"},
		{name: "missing call, new kernel", question: failing(noCall),
			check: "native", state: launch.StateFail,
			found: "a seccomp filter hides", cure: "update the container's manager"},
		{name: "mount calls too new", change: func(f *Facts) {
			f.calls = mountCalls{unix.ENOSYS, unix.ENOSYS, unix.ENOSYS, nil}
			f.kernel = [2]int{4, 19}
		},
			question: failing(noCall), check: "mount-api", state: launch.StateFail,
			found: "open_tree \\(Linux 5.2\\), move_mount", cure: "Linux 5.14"},
		{name: "mount calls refused", change: func(f *Facts) { f.calls.openTree, f.container = unix.EPERM, "docker" },
			question: failing(noNamespaces), check: "mount-api", state: launch.StateFail,
			found: "operation not permitted", cure: "seccomp=unconfined"},
		{name: "no mount_setattr", change: func(f *Facts) { f.calls.mountSetattr = unix.ENOSYS },
			check: "mount-api", state: launch.StateWarning,
			found: "one by one", cure: "update the container's manager", canRun: true},
		{name: "no seccomp", change: func(f *Facts) { f.seccomp.filter = unix.EINVAL },
			question: failing(noFilter), check: "seccomp", state: launch.StateFail,
			found: "cannot be used", cure: "CONFIG_SECCOMP_FILTER"},
		{name: "no notification", change: func(f *Facts) { f.seccomp.notification = unix.EOPNOTSUPP },
			question: failing(noFilter), check: "seccomp-notification", state: launch.StateFail,
			found: "cannot be used", cure: "seccomp"},
		{name: "notification taken", change: func(f *Facts) { f.seccomp.notification = unix.EBUSY },
			question: failing(noFilter), check: "seccomp-notification", state: launch.StateFail,
			found: "another supervisor", cure: "outside"},
		{name: "slow notification", change: func(f *Facts) { f.seccomp.syncWakeUp = false },
			check: "seccomp-notification", state: launch.StateWarning,
			found: "fast wake-up \\(6.6\\)", cure: "6.6", canRun: true},
		{name: "privileges", question: failing(noFilter),
			check: "native", state: launch.StateFail,
			found: "stage privileges: installing", cure: ""},
		{name: "no Landlock", change: func(f *Facts) { f.landlock = landlockFacts{err: unix.ENOSYS} },
			check: "landlock", state: launch.StateWarning,
			found: "cannot be used", cure: "Linux 5.13", canRun: true},
		{name: "Landlock not enabled", change: func(f *Facts) { f.landlock = landlockFacts{err: unix.EOPNOTSUPP} },
			check: "landlock", state: launch.StateWarning,
			found: "cannot be used", cure: "lsm=", canRun: true},
		{name: "no Landlock, which is asked", change: func(f *Facts) { f.landlock = landlockFacts{err: unix.ENOSYS} },
			question: Question{Backend: "landlock", Settings: noFilter}, check: "landlock", state: launch.StateFail,
			found: "cannot be used", cure: "Linux 5.13"},
		{name: "no Landlock, which is needed", change: func(f *Facts) { f.landlock = landlockFacts{err: unix.ENOSYS} },
			question: Question{Weaker: true, Native: noNamespaces, Settings: noFilter}, check: "landlock", state: launch.StateFail,
			found: "cannot be used", cure: "Linux 5.13"},
		{name: "old Landlock, which is needed", change: func(f *Facts) { f.landlock.abi = 3 },
			question: Question{Weaker: true, Native: noNamespaces}, check: "landlock", state: launch.StateWarning,
			found: "version 3, without: TCP connections \\(6.7\\), device controls", cure: "Linux 6.12", canRun: true},
	})
}

func TestRowsOfSettings(t *testing.T) {
	runRows(t, []rowTest{
		{name: "no bwrap", change: func(f *Facts) { f.bubblewrap = bubblewrapFacts{path: "bwrap", err: errors.New("not found")} },
			question: Question{Backend: "bubblewrap", Settings: errors.New("no bwrap")}, check: "bubblewrap", state: launch.StateFail,
			found: "bwrap cannot be used: not found", cure: "install bubblewrap"},
		{name: "no bwrap, which nobody needs", change: func(f *Facts) { f.bubblewrap = bubblewrapFacts{path: "bwrap", err: errors.New("not found")} },
			check: "bubblewrap", state: launch.StateNotApplicable,
			found: "not found", cure: "", canRun: true},
		{name: "writable binary", question: Question{Program: "/w/srt", Writable: `filesystem.allowWrite "."`},
			check: "program", state: launch.StateWarning,
			found: "/w/srt lies where commands may write", cure: "outside of the directories", canRun: true},
		{name: "settings without effect", question: Question{Warnings: []string{"allowWrite /x has no effect"}},
			check: "settings", state: launch.StateWarning,
			found: "/x has no effect", cure: "correct", canRun: true},
		{name: "settings refused", question: Question{Settings: errors.New("network.tlsTerminate cannot be enforced")},
			check: "settings", state: launch.StateFail,
			found: "tlsTerminate", cure: "correct what it names"},
	})
}

// TestNothingMissing looks at a machine that has everything.
func TestNothingMissing(t *testing.T) {
	d := Diagnose(goodFacts(), Question{Backend: config.BackendAuto, Program: "/usr/bin/srt"})
	seen := map[string]bool{}
	for _, c := range d.Checks {
		if seen[c.Name] || c.Title == "" || c.Found == "" || c.Cure != "" || c.State != launch.StateOK && c.State != launch.StateNotApplicable {
			t.Errorf("check %+v", c)
		}
		seen[c.Name] = true
	}
	if !d.CanRun || d.Backend != config.BackendNative || d.Cause != "" || d.Cure != "" || len(d.Choices) != 3 || len(d.Limits) != 1 || d.Warnings == nil {
		t.Errorf("%+v", d)
	}
}

func TestBackend(t *testing.T) {
	for _, test := range []struct {
		question Question
		want     string
	}{
		{Question{Backend: "auto"}, "native"},
		{Question{Backend: "auto", Weaker: true}, "native"},
		{Question{Backend: "auto", Weaker: true, Native: noNamespaces}, "landlock"},
		{failing(noNamespaces), ""},
		{Question{Backend: "landlock", Native: noNamespaces}, "landlock"},
		{Question{Backend: "bubblewrap"}, "bubblewrap"},
		{Question{Backend: "native", Settings: errors.New("refused")}, ""},
	} {
		if d := Diagnose(goodFacts(), test.question); d.Backend != test.want {
			t.Errorf("%+v: backend %q, want %q", test.question, d.Backend, test.want)
		}
	}
}

// TestConsent checks that weaker isolation is offered where it would help.
func TestConsent(t *testing.T) {
	for name, test := range map[string]struct {
		backend string
		weaker  bool
		abi     int
		want    bool
	}{
		"offered":     {"auto", false, 7, true},
		"given":       {"auto", true, 7, false},
		"pinned":      {"native", false, 7, false},
		"no Landlock": {"auto", false, 0, false},
	} {
		f := goodFacts()
		f.landlock.abi = test.abi
		d := Diagnose(f, Question{Backend: test.backend, Weaker: test.weaker, Native: noNamespaces, Settings: noNamespaces})
		if got := strings.Contains(d.Cure, "enableWeakerNestedSandbox"); got != test.want {
			t.Errorf("%s: cure %q", name, d.Cure)
		}
	}
}

func TestLandlockLimits(t *testing.T) {
	f := goodFacts()
	f.landlock.abi = 5
	d := Diagnose(f, Question{Backend: config.BackendLandlock})
	if text := strings.Join(d.Limits, "\n"); !strings.Contains(text, "signals and abstract Unix sockets (6.12)") || strings.Contains(text, "TCP connections") {
		t.Errorf("limits:\n%s", text)
	}
}

func TestMissingBackend(t *testing.T) {
	d := Diagnose(goodFacts(), Question{Backend: config.BackendAuto, Missing: map[string]string{"bubblewrap": "not in this version"}})
	if c := d.Choices[2]; c.Backend != "bubblewrap" || c.Available || c.Note != "not in this version" {
		t.Errorf("%+v", c)
	}
}

func TestKernelVersion(t *testing.T) {
	for release, want := range map[string][2]int{"6.8.0-45-generic": {6, 8}, "5.14": {5, 14}, "4.18.0-553.el8": {4, 18}, "6": {6, 0}, "7.0-rc1": {7, 0}, "": {}} {
		if got := kernelVersion(release); got != want {
			t.Errorf("kernelVersion(%q) = %v, want %v", release, got, want)
		}
	}
}

func TestWSLVersion(t *testing.T) {
	for text, want := range map[string]int{
		"6.8.0-45-generic": 0,
		"Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)":        1,
		"Linux version 4.4.0-22621-Microsoft WSL1":                             1,
		"Linux version 4.19.104-microsoft-standard":                            2,
		"Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)": 2,
	} {
		if got := wslVersion(text); got != want {
			t.Errorf("wslVersion(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestGather looks at the machine of the test: nothing may be left undecided.
func TestGather(t *testing.T) {
	f := Gather(t.Context(), "/nonexistent/bwrap")
	if f.kernel == [2]int{} || f.release == "" || f.bubblewrap.err == nil || f.landlock.abi == 0 && f.landlock.err == nil {
		t.Errorf("%+v", f)
	}
	if f.seccomp.notification == nil && !f.olderThan(6, 6) && !f.seccomp.syncWakeUp {
		t.Errorf("Linux %s has SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: %+v", f.release, f.seccomp)
	}
	// What probing did to its thread must not reach any other.
	if got := statusField(readText("/proc/self/status"), "Seccomp"); got == "2" && !f.filtered {
		t.Error("probing left a seccomp filter behind")
	}
}

// A backend is available when it could run, not when its program is installed.
func TestChoices(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*Facts)
		question  Question
		available [3]bool
		note      int
		said      string
	}{
		"all":                  {question: Question{Backend: config.BackendAuto}, available: [3]bool{true, true, true}, note: 2, said: "0.11.0"},
		"no namespaces":        {func(f *Facts) { f.clone = "0" }, failing(noNamespaces), [3]bool{false, true, false}, 2, "unprivileged_userns_clone is 0"},
		"AppArmor":             {func(f *Facts) { f.restrictedByAppArmor = "1" }, failing(noNamespaces), [3]bool{false, true, true}, 2, "0.11.0"},
		"inside srt":           {func(f *Facts) { f.sandboxed, f.seccomp.notification = true, unix.EBUSY }, failing(noNamespaces), [3]bool{}, 2, "already runs inside"},
		"inside srt, Landlock": {func(f *Facts) { f.sandboxed, f.seccomp.notification = true, unix.EBUSY }, failing(noNamespaces), [3]bool{}, 1, "no calls to srt-init"},
		"bwrap failed":         {nil, Question{Backend: config.BackendBubblewrap, Settings: noNamespaces}, [3]bool{true, true, false}, 2, "stage namespaces"},
	} {
		f := goodFacts()
		if test.change != nil {
			test.change(f)
		}
		choices := Diagnose(f, test.question).Choices
		if got := [3]bool{choices[0].Available, choices[1].Available, choices[2].Available}; got != test.available || !strings.Contains(choices[test.note].Note, test.said) {
			t.Errorf("%s: got %+v, want available %v and %q", name, choices, test.available, test.said)
		}
	}
}
