package gitconfig

import (
	"slices"
	"strings"
)

// Hooks lists the programs that git runs from a directory of hooks.
func Hooks() []string { return slices.Clone(hooks[:]) }

// IsHook reports whether git, on some file system, runs a program of that name.
func IsHook(name string) bool {
	return slices.ContainsFunc(hooks[:], func(h string) bool { return strings.EqualFold(h, name) })
}

var hooks = [...]string{
	"applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-changelist", "p4-post-changelist", "p4-pre-submit", "p4-prepare-changelist",
	"post-applypatch", "post-checkout", "post-commit", "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update",
	"pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg",
	"proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate", "update",
}
