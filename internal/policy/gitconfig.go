package policy

import (
	"bytes"
	"strings"
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
	for _, v := range gitValues(data) {
		switch v.key {
		case "include.path", "includeif.path":
			included, ok := r.gitPath(v.value, parentOf(file))
			if !ok {
				continue
			}
			if err := r.denyWrite(included, gitDenial("config")); err != nil {
				return err
			}
			if err := r.protectConfig(included, dir, worktree, depth+1); err != nil {
				return err
			}
		case "core.hookspath":
			if err := r.protectHooks(v.value, dir, worktree); err != nil {
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
	for _, name := range gitHooks {
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

// sectionName is the section in lower case. Of the sections that matter only
// includeIf has subsections; others with one are something else.
func sectionName(head string) string {
	name, sub, ok := strings.Cut(strings.ToLower(head), " ")
	if ok && name != "includeif" {
		return name + " " + sub
	}
	return name
}

// gitValue is one setting of a git configuration file. The key is the section
// and the name, in lower case.
type gitValue struct{ key, value string }

// gitValues reads the syntax of git-config(1), as far as it decides what a
// value is: sections, comments, quotes, escapes, continued lines.
func gitValues(data []byte) []gitValue {
	var all []gitValue
	section := ""
	data = bytes.ReplaceAll(data, []byte("\\\n"), nil)
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "[") {
			head, rest, ok := cutSection(text)
			if !ok {
				continue
			}
			section = sectionName(head)
			text = strings.TrimSpace(rest)
		}
		name, value, ok := strings.Cut(text, "=")
		if ok && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
			all = append(all, gitValue{key: section + "." + strings.ToLower(strings.TrimSpace(name)), value: unquoteGit(value)})
		}
	}
	return all
}

// cutSection splits `[section "a]b"] rest` after the bracket that closes it.
func cutSection(text string) (head, rest string, ok bool) {
	quoted := false
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quoted:
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ']' && !quoted:
			return strings.TrimSpace(text[1:i]), text[i+1:], true
		}
	}
	return "", "", false
}

func unquoteGit(s string) string {
	var b strings.Builder
	s = strings.TrimSpace(s)
	quoted, keep := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
			keep = b.Len()
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
			keep = b.Len()
		case (c == '#' || c == ';') && !quoted:
			i = len(s)
		default:
			b.WriteByte(c)
			if quoted || c != ' ' && c != '\t' {
				keep = b.Len()
			}
		}
	}
	return b.String()[:keep]
}
