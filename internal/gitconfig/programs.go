package gitconfig

import (
	"slices"
	"strings"
)

// RunsPrograms reports whether an entry makes git, or a tool that keeps its
// settings there, run a program that the entry names, or take programs or more
// configuration from a place that it names. core.worktree, which aims what git
// writes, is not judged here: it depends on where the repository is.
func RunsPrograms(e Entry) bool {
	if hasTransport(e.Value) { // of a remote, of a branch, of a submodule
		return true
	}
	if e.Subsection == "alias" || strings.HasSuffix(e.Subsection, ".alias") { // of StGit, git-branchless
		return true
	}
	switch e.Section {
	case "alias", "include", "includeif", "hook", "guitool":
		// An alias without "!" can still be "rebase --exec …".
		return true
	case "tig": // bind.generic = KEY !command
		return e.Subsection == "bind" || e.Name == "bind"
	case "pager":
		return !e.boolean()
	case "protocol":
		return e.Name == "allow" && !strings.EqualFold(e.Value, "never") && slices.Contains([]string{"", "ext", "fd"}, e.Subsection)
	case "url":
		return runsTransport(e.Subsection)
	case "submodule":
		return e.Name == "update" && strings.HasPrefix(e.Value, "!")
	}
	if slices.Contains(programNames[e.Section], e.Name) {
		return !switches[e.Key()] || !e.boolean()
	}
	// Settings of tools, and of versions of git, that are not known here.
	return slices.ContainsFunc(programSuffixes, func(s string) bool { return strings.HasSuffix(e.Name, s) }) && !e.boolean()
}

// programNames are the names of each section that do not end like
// programSuffixes, or whose value counts even if it looks like a switch.
var programNames = map[string][]string{
	"core":       {"fsmonitor", "hookspath", "sshcommand", "pager", "editor", "askpass", "gitproxy", "alternaterefscommand", "virtualfilesystem"},
	"sequence":   {"editor"},
	"filter":     {"clean", "smudge", "process"},
	"diff":       {"external", "command", "textconv"},
	"merge":      {"driver"},
	"difftool":   {"cmd", "path"},
	"mergetool":  {"cmd", "path", "layout"}, // of vimdiff, through eval
	"browser":    {"cmd", "path"},
	"man":        {"cmd", "path"},
	"credential": {"helper"},
	"gpg":        {"program", "defaultkeycommand"},
	"remote":     {"uploadpack", "receivepack", "vcs"},
	"imap":       {"tunnel"},
	"sendemail":  {"smtpserver"},                             // may be a program
	"instaweb":   {"httpd", "browser", "modulepath", "port"}, // the last as it is in the server's configuration
	"lfs":        {"path", "clean", "smudge"},
	"svn":        {"authorsprog"},
	"init":       {"templatedir"}, // hooks of the repositories to come
	"http":       {"cookiefile"},  // may be written to
}

// switches are names that are also used to switch something built in on or off.
var switches = map[string]bool{"core.fsmonitor": true}

var programSuffixes = []string{"command", "cmd", "program", "prog", "helper", "editor", "pager", "driver", "hook", "askpass", "browser", "difffilter", "hooks"}

// boolean reports whether git takes the value for true or false.
func (e Entry) boolean() bool {
	if e.Bare {
		return true
	}
	return slices.Contains([]string{"", "true", "yes", "on", "false", "no", "off", "0", "1"}, strings.ToLower(e.Value))
}

// runningTransports are the transports whose addresses are command lines or
// descriptors.
var runningTransports = []string{"ext::", "fd::"}

func hasTransport(address string) bool {
	return slices.ContainsFunc(runningTransports, func(t string) bool { return strings.HasPrefix(address, t) })
}

// runsTransport reports whether a text put before the rest of an address can
// make it one of those: the rest may begin anywhere in the transport's name.
func runsTransport(start string) bool {
	return hasTransport(start) || slices.ContainsFunc(runningTransports, func(t string) bool { return strings.HasPrefix(t, start) })
}
