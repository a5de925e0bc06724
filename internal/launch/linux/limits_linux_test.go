package linux

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

func TestResourceLimits(t *testing.T) {
	got := resourceLimits(config.Limits{Memory: 5, Processes: 6, OpenFiles: 7, FileSize: 8, CPUTime: config.Duration(1500 * time.Millisecond), WallTime: 1})
	want := []inside.ResourceLimit{
		{Resource: unix.RLIMIT_DATA, Soft: 5, Hard: 5}, {Resource: unix.RLIMIT_NPROC, Soft: 6, Hard: 6}, {Resource: unix.RLIMIT_NOFILE, Soft: 7, Hard: 7},
		{Resource: unix.RLIMIT_FSIZE, Soft: 8, Hard: 8}, {Resource: unix.RLIMIT_CPU, Soft: 2, Hard: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := resourceLimits(config.Limits{}); got != nil {
		t.Errorf("without limits: %v", got)
	}
}

// Only an end that a limit explains is reported as one.
func TestReportLimits(t *testing.T) {
	all := config.Limits{OpenFiles: 5, FileSize: 4096, CPUTime: config.Duration(2 * time.Second), WallTime: 1}
	for name, c := range map[string]struct {
		limits config.Limits
		status launch.Status
		cpu    time.Duration
		want   []string
	}{
		"a good end":                     {limits: all},
		"a bad end":                      {limits: all, status: launch.Status{Code: 1}},
		"the signal of the time":         {limits: all, status: launch.Status{Signal: int(unix.SIGXCPU)}, want: []string{"cpuTime"}},
		"a shell tells of the signal":    {limits: all, status: launch.Status{Code: 128 + int(unix.SIGXCPU)}, want: []string{"cpuTime"}},
		"killed after the time":          {limits: all, status: launch.Status{Signal: 9}, cpu: 2900 * time.Millisecond, want: []string{"cpuTime"}},
		"killed before":                  {limits: all, status: launch.Status{Signal: 9}, cpu: 1900 * time.Millisecond},
		"ended itself after the time":    {limits: all, cpu: 9 * time.Second},
		"the signal of the size":         {limits: all, status: launch.Status{Signal: int(unix.SIGXFSZ)}, want: []string{"fileSize"}},
		"a limit that is not set":        {limits: config.Limits{FileSize: 1}, status: launch.Status{Signal: int(unix.SIGXCPU)}},
		"the caller has a tighter limit": {limits: config.Limits{FileSize: 1 << 62}, status: launch.Status{Signal: int(unix.SIGXFSZ)}, want: callersFileSize(t)},
	} {
		var said []string
		p := &process{request: launch.Request{Limits: c.limits, Violation: func(v launch.Violation) { said = append(said, v.Target) }}}
		p.reportLimits(c.status, c.cpu)
		if diff := cmp.Diff(c.want, said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// callersFileSize is what is reported of the largest limit: nothing, unless this
// process has none at all.
func callersFileSize(t *testing.T) []string {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &r); err != nil {
		t.Fatal(err)
	}
	if r.Cur == unix.RLIM_INFINITY {
		return []string{"fileSize"}
	}
	return nil
}
