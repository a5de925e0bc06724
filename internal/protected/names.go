// Package protected knows the names that must not be created or changed, and the
// directories that were there when a run started, in which missing ones of these
// names must not appear. The policy and srt-init both ask it.
package protected

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The names below lead to code execution outside the sandbox when somebody runs
// a shell, git, an editor or an agent in the directory that holds them. They
// are write-denied, existing or not, in the working directory, in every write
// root and in a writable home directory. Beneath those, existing ones are
// searched for, and missing ones kept from every directory that the search met.
//
// The first line of each group is the list of the TypeScript srt, which nothing
// may be taken from; the others are additions. Version 2 of this table added
// the names of the home directory.
//
// Left out on purpose, because everyday work changes them and they run nothing
// by themselves: package manifests and lock files, Makefiles, workflows of CI
// systems, .env files, settings of compilers and linters.

// fileNames are shell start-up files, git configuration, and files that make tools
// run programs.
var fileNames = [...]string{
	".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ripgreprc", ".mcp.json",
	".bash_login", ".bash_logout", ".bash_aliases", ".zshenv", ".zlogin", ".zlogout", // shells
	".envrc", // direnv
	".npmrc", // script-shell and registries of npm
}

// dirNames are settings of editors and agents, and hooks.
var dirNames = [...]string{
	".vscode", ".idea", ".claude/commands", ".claude/agents",
	".claude/hooks", ".husky", ".cursor", ".devcontainer",
}

// settingNames are single files below a directory that is otherwise free.
var settingNames = [...]string{".claude/settings.json", ".claude/settings.local.json"}

// homeNames are additional names in the home directory. Where the first directory
// of one is missing it may be made, because unrelated programs use it, too; the
// name in it may not.
var homeNames = [...]string{
	".config/fish", ".config/git", ".config/autostart", ".config/systemd/user", ".config/environment.d",
	".ssh/config", ".ssh/rc", ".ssh/authorized_keys", // commands of ssh; known_hosts stays free
	".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", // logins
}

// below are the names of directories, and of what lies in one.
var below = append(dirNames[:len(dirNames):len(dirNames)], settingNames[:]...)

// Everywhere lists the names of every protected directory.
func Everywhere() []string { return append(fileNames[:len(fileNames):len(fileNames)], below...) }

// InHome lists additional names of the home directory.
func InHome() []string { return append([]string(nil), homeNames[:]...) }

// Unsearched is never searched: it holds other people's packages by the ten
// thousand, and nobody runs tools in there.
const Unsearched = "node_modules"

// Same reports whether a name could be the entry in some directory: there are file
// systems that ignore case, characters without a look (ext4 and f2fs where case is
// ignored, HFS+), or dots and blanks at the end (FAT, exFAT, those of Windows).
func Same(entry, name string) bool { return spell(name).is(entry) }

// spelling is a name, and what is left of it on file systems that do not see all.
type spelling struct{ name, plain string }

func spell(name string) spelling { return spelling{name, plain(name)} }

// is reports whether the name could be the entry in some directory, see Same.
func (s spelling) is(entry string) bool {
	return strings.EqualFold(entry, s.name) || strings.EqualFold(entry, s.plain)
}

// ligatures are letters that ignoring case makes several of.
var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "ß", "ss", "ẞ", "ss")

// plain takes away what some file systems do not see.
func plain(name string) string {
	if strings.IndexFunc(name, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		name = strings.Map(func(c rune) rune {
			if unicode.In(c, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
				return -1
			}
			return c
		}, ligatures.Replace(name))
	}
	return strings.TrimRight(name, ". ")
}

// IsFile reports whether a name in any directory is a protected file. Case is
// ignored: some file systems do.
func IsFile(name string) bool {
	_, ok := spell(name).file()
	return ok
}

// file returns the protected file that the name is in any directory.
func (s spelling) file() (string, bool) {
	for _, p := range fileNames {
		if s.is(p) {
			return p, true
		}
	}
	return "", false
}

// Under lists the protected names in a directory called name, relative to it; ""
// means the directory as a whole.
func Under(name string) []string {
	var all []string
	s := spell(name)
	for _, p := range below {
		if first, rest, _ := strings.Cut(p, "/"); s.is(first) {
			all = append(all, rest)
		}
	}
	return all
}

// Candidate reports whether a name may be a protected one, or a part of one, in
// some directory. It spares nearly every name the rest.
func Candidate(name string) bool {
	s := spell(name)
	if _, ok := s.file(); ok {
		return true
	}
	for _, p := range below {
		if first, rest, _ := strings.Cut(p, "/"); s.is(first) || rest != "" && s.is(rest) {
			return true
		}
	}
	return false
}
