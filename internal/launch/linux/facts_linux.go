package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
)

// Facts are what [Diagnose] decides on.
type Facts struct {
	circumstances
	release, arch string
	calls         mountCalls
	seccomp       seccompFacts
	landlock      landlockFacts
	groups        groupFacts
	bubblewrap    bubblewrapFacts
}

// mountCalls are the results of harmless uses of the mount interface: nil where
// the call is there, ENOSYS where the kernel lacks it or a filter hides it, EPERM
// where a filter refuses it.
type mountCalls struct{ openTree, moveMount, mountSetattr, openat2 error }

// landlockFacts are the version of Landlock, or why there is none.
type landlockFacts struct {
	abi int
	err error
}

// groupFacts are where the cgroup of a command with limits can be made, or why
// there is no such place.
type groupFacts struct {
	dir string
	err error
}

type bubblewrapFacts struct {
	path, version string
	err           error
}

// Gather looks at this machine. bwrapPath names the bubblewrap binary; empty
// means the one on PATH.
func Gather(ctx context.Context, bwrapPath string) *Facts {
	return &Facts{
		circumstances: readCircumstances(),
		release:       kernelRelease(), arch: runtime.GOARCH,
		calls:      probeMountCalls(),
		seccomp:    probeSeccomp(),
		landlock:   probeLandlock(),
		groups:     probeGroup(),
		bubblewrap: findBubblewrap(ctx, bwrapPath),
	}
}

// probeMountCalls makes calls that change nothing. EBADF, EINVAL and the like
// come from the kernel's own code, so that the call is there.
func probeMountCalls() mountCalls {
	_, openTree := unix.OpenTree(-1, "", unix.AT_EMPTY_PATH)
	fd, openat2 := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if openat2 == nil {
		unix.Close(fd)
	}
	// A size of zero is refused before the privileges are looked at.
	_, _, mountSetattr := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0, 0, 0, 0)
	moveMount := unix.MoveMount(-1, "", -1, "", unix.MOVE_MOUNT_F_EMPTY_PATH)
	if errors.Is(moveMount, unix.EPERM) {
		moveMount = nil // the kernel looks at the privileges first
	}
	return mountCalls{openTree: unavailable(openTree), moveMount: unavailable(moveMount), mountSetattr: unavailable(mountSetattr), openat2: unavailable(openat2)}
}

// unavailable keeps the errors that say that a call cannot be used at all.
func unavailable(err error) error {
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

func probeLandlock() landlockFacts {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return landlockFacts{err: e}
	}
	return landlockFacts{abi: int(v)}
}

// probeGroup makes the cgroup of a command with limits and removes it.
func probeGroup() groupFacts {
	h, err := findHierarchy()
	if err != nil {
		return groupFacts{err: err}
	}
	const plenty = 1 << 30
	g, err := h.newGroup(config.Limits{Memory: plenty, Processes: plenty >> 10})
	if err != nil {
		return groupFacts{err: err}
	}
	g.remove()
	return groupFacts{dir: filepath.Dir(g.dir)}
}

// findBubblewrap asks the bwrap binary for its version.
func findBubblewrap(ctx context.Context, path string) bubblewrapFacts {
	if path == "" {
		path = "bwrap"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return bubblewrapFacts{path: path, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, found, "--version")
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if problem := versionProblem(out); err == nil && problem != "" {
		err = errors.New(problem)
	}
	return bubblewrapFacts{path: found, version: strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap "), err: err}
}
