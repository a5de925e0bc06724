package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// oldestBubblewrap is the first release with every option that is used: --size
// is the youngest of them.
var oldestBubblewrap = [3]int{0, 7, 0}

// bubblewrapError says that bwrap cannot be used. There is no fallback: the
// settings ask for it.
func bubblewrapError(text, cure string, err error) error {
	if err != nil {
		text += ": " + err.Error()
	}
	return &launch.StartError{Stage: "bubblewrap", Text: text, Cure: cure, Err: err}
}

// trustedBubblewrap returns the program that the settings name, or the first bwrap
// on PATH, once it is known to be fit. Nothing is executed before it is known
// that no command could have put it there: it runs outside of every sandbox.
func trustedBubblewrap(setting string, pol *policy.Policy) (string, error) {
	program, called := setting, "bwrapPath "+setting
	if setting == "" {
		found, err := exec.LookPath("bwrap")
		if err != nil {
			return "", bubblewrapError("looking for bwrap on PATH", "install bubblewrap, or set bwrapPath", err)
		}
		program, called = found, found
	}
	real, info, err := inspectProgram(program)
	if err != nil {
		return "", bubblewrapError("using "+called, "install bubblewrap there, or correct bwrapPath", err)
	}
	if err := refuseProgram(program, real, info, pol); err != nil {
		return "", err
	}
	return real, checkVersion(real, info)
}

func inspectProgram(program string) (string, os.FileInfo, error) {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, errors.New("it is not a file")
	}
	if err := unix.Access(real, unix.X_OK); err != nil {
		return "", nil, fmt.Errorf("it is not executable: %w", err)
	}
	return real, info, nil
}

func refuseProgram(program, real string, info os.FileInfo, pol *policy.Policy) error {
	// Where commands may write everywhere, no place is better than another.
	everywhere := pol.StateAt("/").Write
	for _, p := range []string{program, real} {
		if !everywhere && pol.StateAt(p).Write {
			return bubblewrapError("using "+p+": commands may write there, and it would run outside of the sandbox",
				"install bubblewrap outside of the write roots, or set bwrapPath", nil)
		}
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		// Such a bwrap gives capabilities to nobody but root, and srt-init could
		// not finish its work. It is also more than an srt without privileges
		// should start.
		return bubblewrapError("using "+real+": it is set-user-ID, and then it gives no capabilities to srt-init",
			"remove the bit with chmod u-s, or set bwrapPath to another copy", nil)
	}
	return nil
}

// versionKey identifies a program that was asked for its version before.
type versionKey struct {
	path     string
	size     int64
	modified time.Time
}

var fitVersions sync.Map // of versionKey

// versionTimeout bounds how long a program may take to tell its version.
const versionTimeout = 10 * time.Second

func checkVersion(program string, info os.FileInfo) error {
	key := versionKey{program, info.Size(), info.ModTime()}
	if _, ok := fitVersions.Load(key); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", time.Second
	text, err := cmd.Output()
	if err != nil {
		return bubblewrapError("asking "+program+" for its version", "install bubblewrap anew, or set bwrapPath", err)
	}
	if problem := versionProblem(text); problem != "" {
		return bubblewrapError("checking the version of "+program+": "+problem, "install bubblewrap "+oldestBubblewrapText()+
			" or later, set bwrapPath to one, or use linux.backend \"native\"", nil)
	}
	fitVersions.Store(key, true)
	return nil
}

// versionProblem judges what bwrap --version prints; empty if nothing is wrong.
func versionProblem(text []byte) string {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	var v [3]int
	if n, _ := fmt.Sscanf(string(first), "bubblewrap %d.%d.%d", &v[0], &v[1], &v[2]); n < 2 {
		return fmt.Sprintf("it says %q", first)
	}
	if slices.Compare(v[:], oldestBubblewrap[:]) < 0 {
		return fmt.Sprintf("%d.%d.%d is too old; %s is the oldest that will do", v[0], v[1], v[2], oldestBubblewrapText())
	}
	return ""
}

func oldestBubblewrapText() string {
	return fmt.Sprintf("%d.%d.%d", oldestBubblewrap[0], oldestBubblewrap[1], oldestBubblewrap[2])
}
