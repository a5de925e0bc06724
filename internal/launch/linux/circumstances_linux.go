package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// circumstances are what decides whether this process may create namespaces and
// mount in them. They are read when that failed, never before a start.
type circumstances struct {
	uid       int
	effective uint64 // capabilities
	// kernel is the version's first two numbers.
	kernel [2]int
	wsl    int // 1 or 2 under the Windows subsystem for Linux

	// restrictedByAppArmor and clone are the contents of the kernel settings
	// apparmor_restrict_unprivileged_userns and unprivileged_userns_clone.
	restrictedByAppArmor, clone string
	appArmor                    string   // the profile of this process
	zeroLimits                  []string // settings below /proc/sys/user that are 0
	missingNamespaces           []string
	filtered                    bool // a seccomp filter is in force
	chroot                      bool
	maskedProc                  bool
	sandboxed                   bool   // by srt
	container                   string // its kind, empty outside
}

func readCircumstances() circumstances {
	status := readText("/proc/self/status")
	mounts, err := inside.ReadMounts()
	c := circumstances{
		uid:                  os.Geteuid(),
		restrictedByAppArmor: readText("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		clone:                readText("/proc/sys/kernel/unprivileged_userns_clone"),
		appArmor:             appArmorLabel(),
		zeroLimits:           zeroLimits(),
		missingNamespaces:    missingNamespaces(),
		filtered:             statusField(status, "Seccomp") == "2",
		chroot:               err == nil && !slices.ContainsFunc(mounts, func(m inside.Mount) bool { return m.Path == "/" }),
		maskedProc: slices.ContainsFunc(mounts, func(m inside.Mount) bool {
			return inside.Beneath("/proc", m.Path) && m.Type != "binfmt_misc" && m.Type != "autofs"
		}),
		sandboxed: os.Getenv("SANDBOX_RUNTIME") == "1",
		container: containerKind(readText("/proc/1/cgroup")),
	}
	c.effective, _ = strconv.ParseUint(statusField(status, "CapEff"), 16, 64)
	release := kernelRelease()
	c.kernel, c.wsl = kernelVersion(release), wslVersion(release+" "+readText("/proc/version"))
	return c
}

func (c *circumstances) privileged(capability uint) bool { return c.effective&(1<<capability) != 0 }

func (c *circumstances) olderThan(major, minor int) bool {
	return c.kernel[0] < major || c.kernel[0] == major && c.kernel[1] < minor
}

// readText returns the content of a small file without the white space around
// it, empty if it cannot be read.
func readText(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// statusField finds a field of /proc/self/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// kernelVersion reads the first two numbers of a release such as "6.8.0-45-generic".
func kernelVersion(release string) (v [2]int) {
	first, rest, _ := strings.Cut(release, ".")
	v[0], _ = strconv.Atoi(first)
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(rest)
	}
	v[1], _ = strconv.Atoi(rest[:end])
	return v
}

// wslVersion recognises the Windows subsystem for Linux. Only the second
// version has a Linux kernel; the first answers Linux system calls.
func wslVersion(text string) int {
	text = strings.ToLower(text)
	switch {
	case !strings.Contains(text, "microsoft"):
		return 0
	case strings.Contains(text, "wsl1"):
		return 1
	case strings.Contains(text, "wsl"), strings.Contains(text, "microsoft-standard"):
		return 2
	}
	return 1
}

func appArmorLabel() string {
	label := readText("/proc/self/attr/apparmor/current")
	if label == "" {
		label = readText("/proc/self/attr/current")
	}
	return strings.TrimRight(label, "\x00")
}

// namespaceKinds are the namespaces of a sandbox, as /proc/self/ns calls them.
var namespaceKinds = [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

func zeroLimits() []string {
	var zero []string
	for _, kind := range namespaceKinds {
		name := "max_" + kind + "_namespaces"
		if readText("/proc/sys/user/"+name) == "0" {
			zero = append(zero, "user."+name)
		}
	}
	return zero
}

func missingNamespaces() []string {
	var missing []string
	for _, kind := range namespaceKinds {
		if _, err := os.Lstat(filepath.Join("/proc/self/ns", kind)); os.IsNotExist(err) {
			missing = append(missing, kind)
		}
	}
	return missing
}

// containerKind recognises containers by what their managers leave inside.
func containerKind(cgroups string) string {
	if kind := readText("/run/host/container-manager"); kind != "" {
		return kind
	}
	for _, f := range []struct{ path, kind string }{{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}, {"/var/run/secrets/kubernetes.io", "kubernetes"}} {
		if _, err := os.Lstat(f.path); err == nil {
			return f.kind
		}
	}
	for _, word := range []string{"kubepods", "docker", "libpod", "lxc", "containerd"} {
		if strings.Contains(cgroups, word) {
			return word
		}
	}
	return os.Getenv("container")
}
