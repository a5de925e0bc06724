package policy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// A shell, or another program's settings, would put something else for these. Few
// settings have any, and compiling the expressions takes a part of srt's start.
var (
	variable  = lazily(`^(\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|%[A-Za-z_][A-Za-z0-9_]*%)$`)
	braces    = lazily(`\{[^{}]*,[^{}]*\}`)
	excluding = lazily(`\[[!^][^\]]*\]`)
	otherHome = lazily(`^~[A-Za-z_][A-Za-z0-9_.-]*$`)
)

func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// warnUnexpanded says that an entry is about another name than its writer may
// think: an entry knows no variables, no braces and no exceptions, and a deny that
// was meant for $HOME/.ssh or *.{pem,key} protects nothing, for [!a]* what it excepts. What exists under the
// spelled name is meant.
func (r *resolver) warnUnexpanded(it item) {
	start, rest, ok := r.anchor(it.Path)
	if !ok {
		return
	}
	relative := rest == it.Path && !path.IsAbs(rest)
	parts := components(rest)
	for i, part := range parts {
		first := relative && i == 0
		why := ""
		switch {
		case !strings.ContainsAny(part, "$%{~!^"):
			continue
		case variable().MatchString(part), first && otherHome().MatchString(part):
			why = fmt.Sprintf("%q is not expanded; write %s", part, expanded(part, first, parts[i+1:]))
		case braces().MatchString(part):
			why = fmt.Sprintf("the braces in %q are not expanded; write one entry for each alternative", part)
		case excluding().MatchString(part):
			why = fmt.Sprintf("the brackets in %q exclude nothing, \"!\" and \"^\" stand for themselves; list the characters that match", part)
		case first && strings.HasPrefix(part, "!"):
			why = `"!" makes no exception; write the entry without it in the opposite list`
		default:
			continue
		}
		if _, err := r.fs.Lstat(path.Join(start, "/", path.Join(parts[:i+1]...))); err == nil || it.rule.Setting == builtInSetting {
			return
		}
		r.warn(it.rule, "is taken as written: "+why)
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
