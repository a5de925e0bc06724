package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
)

// A program that was just written runs, and the lock of a file that was closed is
// free: srt-init, which opened the file for somebody, has it open no longer.
func TestFreshProgram(t *testing.T) {
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0); e != unix.EFAULT {
		t.Skip("needs Linux 5.19")
	}
	for _, backend := range append(slices.Clone(mountBackends), config.BackendLandlock) {
		for _, uid := range users() {
			t.Run(fmt.Sprint(backend, "/uid", uid), func(t *testing.T) {
				needBackend(t, backend)
				s := newSandboxed(t, uid, withLinux(workSettings, backend, ""))
				out, err := s.command(s.binaryCalled("fresh")).CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != "busy 0 locked 0" {
					t.Errorf("%v %s", err, out)
				}
			})
		}
	}
}

// fresh writes programs and runs each at once, and prints how often the kernel
// said that somebody still writes it; and how often a lock outlived its file.
func fresh() {
	busy, err := runFresh()
	locked, err2 := lockFresh()
	if err = errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, "fresh:", err)
		os.Exit(1)
	}
	fmt.Println("busy", busy, "locked", locked)
}

// lockFresh opens the file once so that srt-init does it, and once so that the
// kernel does.
func lockFresh() (locked int, err error) {
	const name = "lock"
	for range 300 {
		for _, flags := range []int{unix.O_RDONLY | unix.O_CREAT, unix.O_RDONLY} {
			fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return 0, err
			}
			if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
				locked, err = locked+1, nil
			}
			unix.Close(fd)
			if err != nil {
				return 0, err
			}
		}
	}
	return locked, os.Remove(name)
}

func runFresh() (busy int, err error) {
	path, err := exec.LookPath("true")
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for i := range 300 {
		name := fmt.Sprint("./program", i)
		if err := os.WriteFile(name, text, 0o755); err != nil {
			return 0, err
		}
		pid, err := syscall.ForkExec(name, []string{name}, nil)
		switch {
		case errors.Is(err, syscall.ETXTBSY):
			busy++
		case err != nil:
			return 0, err
		default:
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
				return 0, err
			}
		}
		if err := os.Remove(name); err != nil {
			return 0, err
		}
	}
	return busy, nil
}
