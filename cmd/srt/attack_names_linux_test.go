package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameTechniques attack invariant 4: protected names cannot be created,
// replaced, moved or shadowed by a renamed ancestor. The settings deny writing
// to "kept", "deep/er/kept" and the absent "later"; ".git" is a repository.
var nameTechniques = []technique{
	{"names: writing", func() error { return open("kept", unix.O_WRONLY) }},
	{"names: removing", func() error { return unix.Unlink("kept") }},
	{"names: moving away", func() error { return unix.Rename("kept", "kept2") }},
	{"names: replacing", func() error { return replace("kept") }},
	{"names: exchanging", func() error { return exchangeWith("kept") }},
	{"names: leaving a whiteout", func() error {
		return unix.Renameat2(unix.AT_FDCWD, "kept", unix.AT_FDCWD, "kept2", unix.RENAME_WHITEOUT)
	}},
	{"names: hard link", func() error { return unix.Link("kept", "kept3") }},
	{"names: moving the directory above", func() error { return unix.Rename("deep", "deep2") }},
	{"names: moving the directory above that", func() error { return unix.Rename("deep/er", "er") }},
	{"names: exchanging the directory above", func() error { return exchangeDirectory("deep") }},
	{"names: exchanging the repository", func() error { return exchangeDirectory(".git") }},
	{"names: moving the repository", func() error { return unix.Rename(".git", "git") }},
	{"names: hooks", func() error { return open(".git/hooks/pre-commit", unix.O_WRONLY|unix.O_CREAT) }},
	{"names: exchanging the hooks", func() error { return exchangeDirectory(".git/hooks") }},
	{"names: repository configuration", func() error { return replace(".git/config") }},
	{"names: worktree configuration", func() error { return open(".git/config.worktree", unix.O_WRONLY|unix.O_CREAT) }},
	{"names: common directory", func() error { return os.Symlink("/tmp", ".git/commondir") }},
	{"names: absent, by open", func() error { return open("later", unix.O_WRONLY|unix.O_CREAT) }},
	{"names: absent, by directory", func() error { return unix.Mkdir("later", 0o700) }},
	{"names: absent, by FIFO", func() error { return unix.Mknod("later", unix.S_IFIFO|0o600, 0) }},
	{"names: absent, by symbolic link", func() error { return unix.Symlink("x", "later") }},
	{"names: absent, by rename", func() error { return replace("later") }},
	{"names: absent, by hard link", func() error {
		name, err := scratch()
		if err != nil {
			return err
		}
		defer os.Remove(name)
		return unix.Link(name, "later")
	}},
	{"names: absent, by a nameless file", func() error {
		fd, err := namelessFile()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(fd, "", unix.AT_FDCWD, "later", unix.AT_EMPTY_PATH)
	}},
	{"names: absent, by a directory descriptor", func() error {
		dir, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return unix.Mkdirat(dir, "./later", 0o700)
	}},
	{"names: absent, by a moved directory", func() error { return shadow("later") }},
}

func replace(target string) error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return unix.Rename(name, target)
}

func exchangeWith(target string) error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return swapNames(name, target)
}

// exchangeDirectory takes the exchange back when it succeeded.
func exchangeDirectory(target string) error {
	if err := os.Mkdir("instead", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	defer os.Remove("instead")
	if err := swapNames("instead", target); err != nil {
		return err
	}
	return swapNames("instead", target)
}

func swapNames(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// shadow moves a prepared directory to the protected name.
func shadow(target string) error {
	_ = os.MkdirAll("prepared/x", 0o700)
	defer os.RemoveAll("prepared")
	return unix.Rename("prepared", target)
}
