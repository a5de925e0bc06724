package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// nameTechniques attack invariant 4: protected names cannot be created,
// replaced, moved or shadowed by a renamed ancestor. The settings deny writing
// to "kept", "deep/er/kept" and the absent "later"; ".git" is a repository.
var nameTechniques = []technique{
	{"inner: write below a descriptor", writeBelowDescriptor},
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
	{"names: from namespaces of its own", fromNamespaces}, // linux 106
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

// fromNamespaces holds the repository's directory open, moves the whole tree
// aside in a user and mount namespace of its own and writes the configuration
// through the descriptor, where nothing covers it.
func fromNamespaces() error {
	dir, err := os.Open(".git")
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd := exec.Command("attack", "inner: write below a descriptor")
	cmd.ExtraFiles = []*os.File{dir}
	cmd.SysProcAttr = mountsOfItsOwn()
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "SUCCEEDED") {
		err = errors.New(strings.TrimSpace(string(out)))
	}
	return err
}

// writeBelowDescriptor is the inner part of fromNamespaces.
func writeBelowDescriptor() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := errors.Join(unix.Mount("/", "/mnt", "", unix.MS_BIND|unix.MS_REC, ""), unix.Chdir("/mnt"), unix.PivotRoot(".", ".")); err != nil {
		return err
	}
	fd, err := unix.Openat(3, "config", unix.O_WRONLY, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
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

// mountsOfItsOwn makes a process root of a user namespace in which it may mount.
func mountsOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}
