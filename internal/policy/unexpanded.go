package policy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A shell, or another program's settings, would put something else for these.
var (
	variable  = regexp.MustCompile(`^(\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|%[A-Za-z_][A-Za-z0-9_]*%)$`)
	otherHome = regexp.MustCompile(`^~[A-Za-z_][A-Za-z0-9_.-]*$`)
)

// warnUnexpanded says that an entry is about another name than its writer may
// think: an entry knows no variables, and a deny that was meant for
// $HOME/.ssh protects nothing. What exists under the spelled name is meant.
func (r *resolver) warnUnexpanded(it item) {
	start, rest, ok := r.anchor(it.Path)
	if !ok {
		return
	}
	relative := rest == it.Path && !path.IsAbs(rest)
	parts := components(rest)
	for i, part := range parts {
		first := relative && i == 0
		if !variable.MatchString(part) && !(first && otherHome.MatchString(part)) {
			continue
		}
		if _, err := r.fs.Lstat(path.Join(start, "/", path.Join(parts[:i+1]...))); err == nil || it.rule.Setting == builtInSetting {
			return
		}
		r.warn(it.rule, fmt.Sprintf("is taken as written: %q is not expanded; write %s", part, expanded(part, first, parts[i+1:])))
		return
	}
}

// expanded is what to write instead.
func expanded(part string, first bool, rest []string) string {
	start := map[string]string{"HOME": "~", "USERPROFILE": "~", "PWD": "."}[strings.Trim(part, "${}%")]
	if !first || start == "" {
		return "what it stands for"
	}
	return fmt.Sprintf("%q", strings.Join(append([]string{start}, rest...), "/"))
}
