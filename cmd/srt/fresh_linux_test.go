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

	"github.com/srt-sandbox/srt/config"
)

// A program that was just written runs: srt-init, which opened the file for its
// writer, holds it no longer than the writer does.
func TestFreshProgram(t *testing.T) {
	for _, backend := range append(slices.Clone(mountBackends), config.BackendLandlock) {
		for _, uid := range users() {
			t.Run(fmt.Sprint(backend, "/uid", uid), func(t *testing.T) {
				needBackend(t, backend)
				s := newSandboxed(t, uid, withLinux(workSettings, backend, ""))
				out, err := s.command(s.binaryCalled("fresh")).CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != "busy 0" {
					t.Errorf("%v %s", err, out)
				}
			})
		}
	}
}

// fresh writes programs and runs each at once, and prints how often the kernel
// said that somebody still writes it.
func fresh() {
	busy, err := runFresh()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fresh:", err)
		os.Exit(1)
	}
	fmt.Println("busy", busy)
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
