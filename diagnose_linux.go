package srt

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux"
	"github.com/srt-sandbox/srt/internal/policy"
)

// trialTime bounds a sandbox that is set up to find out whether it can be.
const trialTime = 30 * time.Second

// diagnose sets two sandboxes up: a native one with the built-in settings, which
// depends on nothing but the machine, and one as a run here and now would.
func diagnose(ctx context.Context, cfg *config.Config) (*Diagnosis, error) {
	q := linux.Question{Backend: cfg.LinuxBackend(), Weaker: cfg.EnableWeakerNestedSandbox, Missing: missingBackends()}
	builtIn := config.Default()
	builtIn.Linux = &config.Linux{Backend: config.BackendNative}
	_, q.Native = trial(ctx, builtIn, "/")
	q.Warnings, q.Settings = trial(ctx, cfg, "")
	q.Program, q.Writable = writableProgram(ctx, cfg)
	facts := linux.Gather(ctx, cfg.BwrapPath)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return linux.Diagnose(facts, q), nil
}

// missingBackends are those that this version does not have.
func missingBackends() map[string]string {
	missing := map[string]string{}
	for _, backend := range []string{config.BackendNative, config.BackendLandlock, config.BackendBubblewrap} {
		cfg := config.Default()
		cfg.Linux = &config.Linux{Backend: backend}
		var unsupported *UnsupportedError
		if _, err := newLauncher(cfg); errors.As(err, &unsupported) {
			missing[backend] = unsupported.Reason
		}
	}
	return missing
}

// trial runs a program that does nothing in a sandbox. Where the program does
// not exist or fails the sandbox stood nevertheless.
func trial(ctx context.Context, cfg *config.Config, dir string) (warnings []string, failed error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	var mu sync.Mutex
	warn := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	sb, err := New(ctx, cfg, WithWarnings(warn))
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("true")
	if err != nil {
		program = "/bin/true"
	}
	cmd := sb.Command(ctx, program)
	cmd.Dir = dir
	failed = cmd.Run()
	sb.Close() // nothing calls warn from here on
	var command *CommandError
	var exit *ExitError
	if ctx.Err() == nil && (errors.As(failed, &command) || errors.As(failed, &exit)) {
		failed = nil
	}
	return warnings, failed
}

// writableProgram returns the path of this program and the rule that lets
// commands change what lies beside it, empty if none does.
func writableProgram(ctx context.Context, cfg *config.Config) (path, rule string) {
	path, err := os.Executable()
	if err != nil {
		return "", ""
	}
	at, err := (&Cmd{}).place(os.LookupEnv)
	if err != nil {
		return path, ""
	}
	pol, err := policy.Resolve(ctx, policy.Input{Config: cfg, Cwd: at.dir, Home: at.home, UID: os.Geteuid(), FS: policy.OSFS()})
	if err != nil {
		return path, ""
	}
	for _, dir := range programDirs(path) {
		if place := pol.StateAt(dir); place.Write {
			return path, place.WriteRule.String()
		}
	}
	return path, ""
}

// programDirs are the directories in which replacing a name replaces the
// program: that of the file, and that of the link it was started by.
func programDirs(path string) []string {
	dirs := []string{filepath.Dir(path)}
	started, err := exec.LookPath(os.Args[0])
	if err != nil {
		return dirs
	}
	if started, err = filepath.Abs(started); err != nil {
		return dirs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(started)); err == nil {
		dirs = append(dirs, dir)
	}
	return dirs
}
