package inside

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/gitconfig"
)

// config blocks a configuration file that makes git run programs, or that could
// be made to later through another name.
func (n *inspection) config(dir int, name string) {
	m := n.member(dir, name)
	if m == nil {
		return
	}
	defer m.close()
	if m.kind() == unix.S_IFDIR {
		return // git cannot read it
	}
	data, err := m.readAll(min(maxConfig, maxConfigs-n.read))
	n.read += int64(len(data))
	if err != nil || bytes.Count(data, []byte("\n")) > maxConfigLines {
		n.block(m, repositoryConfig, "a configuration that cannot be read", "")
		return
	}
	entries, err := gitconfig.Parse(data)
	kept, taken := n.sort(dir, entries)
	switch {
	case len(taken) > 0:
		n.replace(m, strings.Join(taken, ", "), gitconfig.Format(kept))
	case err != nil:
		n.block(m, repositoryConfig, "a configuration with mistakes", "")
	case !m.alone():
		n.replace(m, "a configuration with another name", data)
	}
}

// sort separates the entries that run programs and names them, a few at most.
func (n *inspection) sort(dir int, entries []gitconfig.Entry) (kept []gitconfig.Entry, taken []string) {
	const most, longest = 5, 80
	for _, e := range entries {
		if !gitconfig.RunsPrograms(e) && (e.Key() != "core.worktree" || n.mayBeWorktree(dir, e.Value)) {
			kept = append(kept, e)
			continue
		}
		key := e.Key()
		if len(key) > longest {
			key = key[:longest] + "…"
		}
		if len(taken) < most && !slices.Contains(taken, key) {
			taken = append(taken, key)
		} else if len(taken) == most {
			taken = append(taken, "…")
		}
	}
	return kept, taken
}

// mayBeWorktree reports whether git would write to a place that the command may
// write to itself and that is this repository's. A way there through symbolic links could be turned later.
func (n *inspection) mayBeWorktree(dir int, value string) bool {
	if n.late() {
		return false
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, value, &how)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return n.mayWriteBelow(fd) && n.leadsTo(fd, dir)
}

// leadsTo reports whether the .git of a directory is a git directory. Another one
// could let git write what is denied to the command, such as .bashrc in a home
// directory that it may write to.
func (n *inspection) leadsTo(tree, dir int) bool {
	m := n.member(tree, gitName)
	if m == nil {
		return false
	}
	defer m.close()
	git, err := openPointed(m)
	if err != nil {
		return false
	}
	defer unix.Close(git)
	var a, b unix.Stat_t
	return unix.Fstat(git, &a) == nil && unix.Fstat(dir, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// mayWriteBelow reports whether the command may write to a directory.
func (n *inspection) mayWriteBelow(dir int) bool {
	if n.rules != nil {
		name, e := objectName(dir)
		_, ok := n.rules.mayChange(name)
		return e == 0 && name != "" && ok
	}
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0
}

// replace renames a configuration and writes one without the entries that were
// taken, so that the repository stays one.
func (n *inspection) replace(m *member, why string, data []byte) {
	n.block(m, repositoryConfig, why, ", the rest of it is in its place")
	if exists(location{dir: m.dir, name: m.name}) {
		return // could not be renamed
	}
	fd, err := unix.Openat(m.dir, m.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		f := os.NewFile(uintptr(fd), m.name)
		_, err = f.Write(data)
		if err = errors.Join(err, f.Chmod(os.FileMode(m.stat.Mode&0o666|0o600)), f.Close()); err != nil {
			_ = unix.Unlinkat(m.dir, m.name, 0)
		}
	}
	if err != nil {
		n.failed = n.failed || errors.Is(err, unix.EEXIST) // somebody else's, who keeps it
		n.report(m, repositoryConfig, "new configuration", "could not be written: "+err.Error())
	}
}
