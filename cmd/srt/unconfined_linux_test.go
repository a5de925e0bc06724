package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// unconfined runs the attack program without srt, with namespaces of its own and
// every capability in them: the control that shows that a technique works
// where nothing stops it. The new namespaces keep it from the machine. Its target
// is a process of the same user.
func unconfined() {
	victim := exec.Command("sleep", "600")
	if err := victim.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "unconfined:", err)
		os.Exit(1)
	}
	cmd := exec.Command("attack", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "ATTACK_TARGET="+strconv.Itoa(victim.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, c)
	}
	err := cmd.Run()
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "unconfined:", err)
		os.Exit(1)
	}
}

// freshTree gives a technique a copy of the directory $ATTACK_FRESH of its own,
// if there is one: where attacks succeed, they leave nothing for the next.
func freshTree() {
	original := os.Getenv("ATTACK_FRESH")
	if original == "" {
		return
	}
	copied, err := os.MkdirTemp(filepath.Dir(original), "fresh")
	if err == nil {
		err = exec.Command("cp", "-a", original+"/.", copied).Run()
	}
	if err == nil {
		err = os.Chdir(filepath.Join(copied, "w"))
	}
	if err == nil {
		err = os.Setenv("ATTACK_OUTSIDE", filepath.Join(copied, "outside"))
	}
	if err != nil {
		fmt.Println("copying the tree:", err)
		os.Exit(1)
	}
}
