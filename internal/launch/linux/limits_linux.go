package linux

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// groupCure says how to get a cgroup for the limits of everything together.
const groupCure = "start srt in a cgroup that your user may divide, for example with: systemd-run --user --scope srt ..."

// limit decides how the limits of a request are enforced: memory and processes
// in a cgroup where there can be one, otherwise process by process. Without a
// user namespace the kernel counts every process of the user.
func (p *process) limit(l config.Limits, namespace bool) ([]inside.ResourceLimit, error) {
	if l.Memory == 0 && l.Processes == 0 {
		return resourceLimits(l), nil
	}
	var g *group
	h, err := findHierarchy()
	if err == nil {
		g, err = h.newGroup(l)
	}
	if err == nil {
		p.group = g
		l.Memory, l.Processes = 0, 0
		return resourceLimits(l), nil
	}
	if l.Processes != 0 && (uncounted() || !namespace) {
		return nil, processesUncounted(err, namespace)
	}
	if l.Memory != 0 {
		p.request.Note("limits.memory holds for each process, not for all together: " + err.Error() + "; " + groupCure)
	}
	return resourceLimits(l), nil
}

// processesUncounted says why nothing holds a limit of processes.
func processesUncounted(err error, namespace bool) error {
	reason, cure := "Linux does not count the processes of root", "run srt as an ordinary user, or "
	if !namespace {
		reason, cure = "without a user namespace Linux counts all processes of the user", ""
	}
	return &launch.StartError{Stage: "limits", Err: err,
		Text: "limits.processes cannot be enforced: " + reason + ", and there is no cgroup to count in: " + err.Error(),
		Cure: cure + groupCure + "; or remove the setting"}
}

// resourceLimits translates limits to those that each process has. RLIMIT_DATA
// counts what a process can really fill; RLIMIT_AS would also count the address
// space that Go, Java and Node reserve and never use.
func resourceLimits(l config.Limits) []inside.ResourceLimit {
	var all []inside.ResourceLimit
	add := func(resource int, soft, hard uint64) {
		if soft > 0 {
			all = append(all, inside.ResourceLimit{Resource: resource, Soft: soft, Hard: hard})
		}
	}
	add(unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory))
	add(unix.RLIMIT_NPROC, uint64(l.Processes), uint64(l.Processes)) // srt-init adds its own threads
	add(unix.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles))
	add(unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize))
	// At the soft limit comes SIGXCPU, which names the reason and can be handled
	// to clean up; at the hard one SIGKILL.
	add(unix.RLIMIT_CPU, seconds(l.CPUTime), seconds(l.CPUTime)+1)
	return all
}

// seconds rounds up: the kernel counts whole ones.
func seconds(d config.Duration) uint64 {
	return uint64((time.Duration(d) + time.Second - 1) / time.Second)
}

// uncounted reports whether RLIMIT_NPROC does not hold for the caller: the kernel
// exempts user 0 of the first user namespace, in namespaces below it too.
func uncounted() bool {
	if os.Geteuid() != 0 {
		return false
	}
	m, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(m))
	return err != nil || len(f) < 2 || f[1] == "0"
}

// reportLimits records the limits that the command's end shows it ran into. A
// refused open or fork leaves no trace that the kernel would tell apart from
// other failures, so of those nothing is said.
func (p *process) reportLimits(status launch.Status, cpu time.Duration) {
	l := p.request.Limits
	if l == (config.Limits{}) {
		return
	}
	if l.CPUTime != 0 && tighter(unix.RLIMIT_CPU, seconds(l.CPUTime)) && usedUp(status, cpu, seconds(l.CPUTime)) {
		p.request.Violation(launch.Exceeded("cpuTime", l.CPUTime))
	}
	if l.FileSize != 0 && tighter(unix.RLIMIT_FSIZE, uint64(l.FileSize)) && endedBy(status, unix.SIGXFSZ) {
		p.request.Violation(launch.Exceeded("fileSize", l.FileSize))
	}
	if p.group == nil {
		return
	}
	e := p.group.events()
	// Where the cgroup of the caller was tighter, its limit was met and not ours.
	if e.outOfMemory && l.Memory != 0 && l.Memory == p.group.memory {
		p.request.Violation(launch.Exceeded("memory", l.Memory))
	}
	if e.forkRefused && l.Processes != 0 && l.Processes == p.group.processes {
		p.request.Violation(launch.Exceeded("processes", count(l.Processes)))
	}
}

// tighter reports whether a limit is below what the caller has, so that a signal
// is due to it.
func tighter(resource int, soft uint64) bool {
	var r unix.Rlimit
	return unix.Getrlimit(resource, &r) == nil && soft < r.Cur
}

// usedUp reports whether a command ended for its processor time: by the signal
// of the soft limit, or killed after it. The kernel counts ticks for the limit
// and measures for the report, which can be less than the hard limit.
func usedUp(status launch.Status, cpu time.Duration, limit uint64) bool {
	killed := status.Signal == int(unix.SIGKILL) && cpu >= time.Duration(limit)*time.Second
	return killed || endedBy(status, unix.SIGXCPU)
}

// endedBy also takes the word of a shell whose child the signal ended.
func endedBy(status launch.Status, s unix.Signal) bool { return status.ShellCode() == 128+int(s) }

// count is a number for messages.
type count int

func (c count) String() string { return strconv.Itoa(int(c)) }

// errNoGroup says why memory and processes cannot be counted together.
func errNoGroup(format string, args ...any) error {
	return fmt.Errorf("no cgroup for the command: "+format, args...)
}

var errGone = errors.New("it was removed meanwhile")
