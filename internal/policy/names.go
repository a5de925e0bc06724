package policy

import "strings"

// The names below lead to code execution outside the sandbox when somebody runs
// a shell, git, an editor or an agent in the directory that holds them. They
// are write-denied, existing or not, in the working directory, in every write
// root and in a writable home directory. Beneath those, existing ones are
// searched for.
//
// The first line of each group is the list of the TypeScript srt, which nothing
// may be taken from; the others are additions. Version 2 of this table added
// the names of the home directory.
//
// Left out on purpose, because everyday work changes them and they run nothing
// by themselves: package manifests and lock files, Makefiles, workflows of CI
// systems, .env files, settings of compilers and linters.

// protectedFiles are shell start-up files, git configuration, and files that
// make tools run programs.
var protectedFiles = [...]string{
	".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ripgreprc", ".mcp.json",
	".bash_login", ".bash_logout", ".bash_aliases", ".zshenv", ".zlogin", ".zlogout", // shells
	".envrc", // direnv
	".npmrc", // script-shell and registries of npm
}

// protectedDirs are settings of editors and agents, and hooks.
var protectedDirs = [...]string{
	".vscode", ".idea", ".claude/commands", ".claude/agents",
	".claude/hooks", ".husky", ".cursor", ".devcontainer",
}

// protectedSettings are single files below a directory that is otherwise free.
var protectedSettings = [...]string{".claude/settings.json", ".claude/settings.local.json"}

// protectedInHome are additional names in the home directory. Those with a
// directory count only where their first directory exists, so that unrelated
// programs can still make it.
var protectedInHome = [...]string{
	".config/fish", ".config/git", ".config/autostart", ".config/systemd/user", ".config/environment.d",
	".ssh/config", ".ssh/rc", ".ssh/authorized_keys", // commands of ssh; known_hosts stays free
	".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", // logins
}

// protectedEverywhere lists the names of every protected directory.
func protectedEverywhere() []string {
	return append(append(protectedFiles[:len(protectedFiles):len(protectedFiles)], protectedDirs[:]...), protectedSettings[:]...)
}

// unsearchedDir is never searched: it holds other people's packages by the
// ten thousand, and nobody runs tools in there.
const unsearchedDir = "node_modules"

// protectedFile reports whether a name in any directory is a protected file.
// Case is ignored: some file systems do.
func protectedFile(name string) bool {
	for _, p := range protectedFiles {
		if strings.EqualFold(p, name) {
			return true
		}
	}
	return false
}

// protectedUnder lists the protected names in a directory called name, relative
// to it; "" means the directory as a whole.
func protectedUnder(name string) []string {
	var below []string
	for _, list := range [][]string{protectedDirs[:], protectedSettings[:]} {
		for _, p := range list {
			first, rest, _ := strings.Cut(p, "/")
			if strings.EqualFold(first, name) {
				below = append(below, rest)
			}
		}
	}
	return below
}
