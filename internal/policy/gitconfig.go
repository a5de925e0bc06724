package policy

import (
	"strings"

	"github.com/srt-sandbox/srt/internal/gitconfig"
)

// maxIncludes is how deep git lets configuration files include each other.
const maxIncludes = 10

// protectConfigured protects what the configuration of a repository names: the
// directory of its hooks, and the files that it includes. Where the settings let
// the command change the configuration itself, that would be for nothing.
func (r *resolver) protectConfigured(dir, worktree string) error {
	if r.in.Config.Filesystem.AllowGitConfig {
		return nil
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := r.protectConfig(child(dir, name), dir, worktree, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) protectConfig(file, dir, worktree string, depth int) error {
	l, err := r.land(file, true)
	if depth > maxIncludes || err != nil || l.info.Kind != File || r.configs[checkout{file, worktree}] {
		return nil //nolint:nilerr // nothing there, or nothing new
	}
	r.configs[checkout{file, worktree}] = true // files that include each other many times over
	data, err := r.fs.ReadFile(l.path, maxPointer)
	if err != nil {
		return nil //nolint:nilerr // git cannot read it either
	}
	settings, _ := gitconfig.Parse(data) // git reads nothing behind a mistake either
	for _, v := range settings {
		switch {
		case v.Key() == "include.path", v.Section == "includeif" && v.Name == "path":
			included, ok := r.gitPath(v.Value, parentOf(file))
			if !ok {
				continue
			}
			if err := r.denyWrite(included, gitDenial("config")); err != nil {
				return err
			}
			if err := r.protectConfig(included, dir, worktree, depth+1); err != nil {
				return err
			}
		case v.Key() == "core.hookspath":
			if err := r.protectHooks(v.Value, dir, worktree); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectHooks protects a configured directory of hooks. One that holds the
// whole work tree cannot be denied as a whole; there each hook is.
func (r *resolver) protectHooks(value, dir, worktree string) error {
	base := worktree
	if base == "" {
		base = dir
	}
	hooks, ok := r.gitPath(value, base)
	if !ok {
		return nil
	}
	l, err := r.land(hooks, true)
	if err == nil && !within(l.path, base) {
		return r.denyWrite(hooks, gitDenial("hooks"))
	}
	for _, name := range gitconfig.Hooks() {
		if err := r.denyWrite(child(hooks, name), gitDenial("hooks")); err != nil {
			return err
		}
	}
	return nil
}

// gitPath makes a path of git's configuration absolute.
func (r *resolver) gitPath(value, base string) (string, bool) {
	switch {
	case value == "" || strings.HasPrefix(value, "%("):
		return "", false
	case strings.HasPrefix(value, "~/"):
		return r.in.Home + value[1:], r.in.Home != ""
	case strings.HasPrefix(value, "/"):
		return value, true
	}
	return base + "/" + value, true
}
