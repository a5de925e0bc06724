package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// standingTechniques attack invariant 4 in directories further down: "sub", with
// "sub/in" and "sub/.claude", and the empty "spare" were there before the run and
// hold no protected name. "way" is a link to "sub".
var standingTechniques = []technique{
	{"standing: by open", func() error { return open("sub/.npmrc", unix.O_WRONLY|unix.O_CREAT) }},
	{"standing: further down", func() error { return open("sub/in/.envrc", unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL) }},
	{"standing: by directory", func() error { return unix.Mkdir("sub/.vscode", 0o700) }},
	{"standing: in an empty directory", func() error { return unix.Mkdir("spare/.vscode", 0o700) }},
	{"standing: in other letters", func() error { return unix.Mkdir("sub/.VSCode", 0o700) }},
	{"standing: by FIFO", func() error { return unix.Mknod("sub/.idea", unix.S_IFIFO|0o600, 0) }},
	{"standing: by symbolic link", func() error { return unix.Symlink("in", "sub/.husky") }},
	{"standing: by hard link", func() error { return unix.Link("sub/file", "sub/.npmrc") }},
	{"standing: by a nameless file", func() error {
		fd, err := namelessFile()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(fd, "", unix.AT_FDCWD, "sub/.npmrc", unix.AT_EMPTY_PATH)
	}},
	{"standing: by rename", func() error { return replace("sub/.npmrc") }},
	{"standing: by a moved directory", func() error { return shadow("sub/.vscode") }},
	{"standing: by socket", func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: "sub/.npmrc"})
	}},
	{"standing: through a link", func() error { return unix.Mkdir("way/.vscode", 0o700) }},
	{"standing: through a dangling link", func() error {
		_ = os.Remove("dangling")
		if err := os.Symlink("sub/.npmrc", "dangling"); err != nil {
			return err
		}
		return open("dangling", unix.O_WRONLY|unix.O_CREAT)
	}},
	{"standing: through the working directory", func() error { return unix.Mkdir("/proc/self/cwd/sub/.vscode", 0o700) }},
	{"standing: below a descriptor", func() error {
		dir, err := unix.Open("sub", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return unix.Mkdirat(dir, "in/../.vscode", 0o700)
	}},
	{"standing: below a descriptor of a directory that was moved", func() error {
		dir, err := unix.Open("sub", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		if err := unix.Rename("sub", "elsewhere"); err != nil {
			return err
		}
		defer unix.Rename("elsewhere", "sub")
		return unix.Mkdirat(dir, ".vscode", 0o700)
	}},
	{"standing: settings of an agent", func() error { return unix.Mkdir("sub/.claude/commands", 0o700) }},
	{"standing: settings of an agent, by rename", func() error { return replace("sub/.claude/settings.json") }},
	{"standing: settings of an agent, made again", func() error {
		return inPlaceOf("sub/.claude", func() error {
			return errors.Join(os.Mkdir("sub/.claude", 0o700), os.Mkdir("sub/.claude/commands", 0o700))
		})
	}},
	{"standing: in a directory made again", func() error {
		return inPlaceOf("spare", func() error { return os.MkdirAll("spare/.vscode", 0o700) })
	}},
	{"standing: in a directory made again further down", func() error {
		return inPlaceOf("sub", func() error {
			if err := os.MkdirAll("sub/in", 0o700); err != nil {
				return err
			}
			return open("sub/in/.npmrc", unix.O_WRONLY|unix.O_CREAT)
		})
	}},
	{"standing: with a tree in its place", treeInPlace("sub", "", ".vscode/")},
	{"standing: with a tree in other letters in its place", treeInPlace("sub", "", ".VsCode/")},
	{"standing: with a tree in its place, further down", treeInPlace("sub", "", "in/.npmrc")},
	{"standing: with a tree in its place, an agent's", treeInPlace("sub", "", ".claude/hooks/")},
	{"standing: with a tree of links in its place", treeInPlace("sub", "", "in -> .")},
	{"standing: with part of a tree in its place", treeInPlace("sub/in", "", ".npmrc")},
	{"standing: with a tree that nobody may read in its place", treeInPlace("sub", "closed", ".vscode/")},
	{"standing: with a tree over an empty directory", treeInPlace("spare", "over", ".vscode/")},
	{"standing: with a tree exchanged for it", treeInPlace("sub", "exchange", ".vscode/")},
	{"standing: with it exchanged for a tree", treeInPlace("sub", "exchanged", ".vscode/")},
	{"standing: with a link in its place", treeInPlace("sub", "link", ".vscode/")},
	{"standing: with a moved link in its place", treeInPlace("sub", "moved link", ".vscode/")},
	{"standing: with an exchanged link in its place", treeInPlace("sub", "exchanged link", ".vscode/")},
	{"standing: with a second name of a link in its place", treeInPlace("sub", "hard link", ".vscode/")},
	{"standing: while directories are exchanged", raceExchange},
}

// inPlaceOf calls attempt while a directory has another name. When the attempt
// failed, all is as before.
func inPlaceOf(dir string, attempt func() error) error {
	if err := unix.Rename(dir, "aside"); err != nil {
		return err
	}
	err := attempt()
	if err != nil {
		_ = os.RemoveAll(dir)
		if back := unix.Rename("aside", dir); back != nil {
			return back
		}
	}
	return err
}

// treeInPlace makes a tree with a name in it and brings it to the place of a
// directory. The name is that of a directory with a slash at its end, otherwise of
// a file, or a link "NAME -> TARGET".
func treeInPlace(target, way, name string) func() error {
	return func() error {
		_ = os.Chmod("tree", 0o700)
		_ = errors.Join(os.RemoveAll("tree"), os.RemoveAll("link"))
		if err := plantTree("tree", name); err != nil {
			return err
		}
		switch way {
		case "over":
			return unix.Rename("tree", target)
		case "exchange":
			return swapNames("tree", target)
		case "exchanged":
			return swapNames(target, "tree")
		case "closed":
			if err := os.Chmod("tree", 0o300); err != nil {
				return err
			}
		case "exchanged link":
			if err := os.Symlink("tree", "link"); err != nil {
				return err
			}
			return swapNames("link", target)
		}
		return inPlaceOf(target, func() error {
			switch way {
			case "link":
				return unix.Symlink("tree", target)
			case "moved link":
				return errors.Join(unix.Symlink("tree", "link"), unix.Rename("link", target))
			case "hard link":
				return errors.Join(unix.Symlink("tree", "link"), unix.Link("link", target))
			}
			return unix.Rename("tree", target)
		})
	}
}

func plantTree(dir, name string) error {
	name, target, link := strings.Cut(name, " -> ")
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return err
	}
	switch {
	case link:
		return os.Symlink(target, full)
	case strings.HasSuffix(name, "/"):
		return os.Mkdir(full, 0o700)
	}
	return os.WriteFile(full, nil, 0o600)
}

// raceExchange lets a new directory and the old one change names, while a name is
// made in what the free name leads to.
func raceExchange() error {
	if err := os.Mkdir("turn", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	old, err := os.Stat("sub")
	if err != nil {
		return err
	}
	err = race(func() { _ = swapNames("turn", "sub") }, func() {
		_ = unix.Mkdir("turn/.vscode", 0o700)
		_ = unix.Rmdir("turn/.vscode")
	}, func() bool { return unix.Access("sub/.vscode", unix.F_OK) == nil })
	for range 100 {
		if now, e := os.Stat("sub"); e == nil && os.SameFile(now, old) {
			break
		}
		_ = os.RemoveAll("turn/.vscode")
		_ = swapNames("turn", "sub")
	}
	return err
}
