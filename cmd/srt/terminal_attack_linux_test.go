package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	tiocLinux      = 0x541c // type what is selected on a virtual console
	tiocConsole    = 0x541d // redirect the system console
	tiocDiscipline = 0x5423 // TIOCSETD
	tiocHangUp     = 0x5437 // TIOCVHANGUP
	highBits       = 0xdead << 32
)

// terminalRequests are the requests that no command may make. Outside the kernel
// itself refuses some of them, or knows them on a virtual console only.
var terminalRequests = []struct {
	name   string
	number uintptr
	// harmless says that anybody may do this to a pseudo-terminal of his own, so
	// that a control shows that it works outside.
	harmless bool
}{
	{"type", unix.TIOCSTI, true},
	{"exclude", unix.TIOCEXCL, true},
	{"discipline", tiocDiscipline, true},
	{"linux", tiocLinux, false},
	{"console", tiocConsole, false},
	{"hang up", tiocHangUp, false},
}

// terminalWays are the ways to a descriptor of the terminal.
var terminalWays = []struct{ name, path string }{
	{"standard input", ""},
	{"the controlling terminal", "/dev/tty"},
	{"its name", "/dev/console"},
	{"standard input, opened again", "/proc/self/fd/0"},
	{"standard input of a thread, opened again", "/proc/thread-self/fd/0"},
}

func terminalTechniques() []technique {
	var all []technique
	for _, r := range terminalRequests {
		for _, way := range terminalWays {
			for name, high := range map[string]uintptr{"": 0, ", high bits": highBits} {
				all = append(all, technique{fmt.Sprintf("terminal: %s: %s%s", r.name, way.name, name), func() error {
					return terminalRequest(way.path, r.number|high)
				}})
			}
		}
	}
	return append(all,
		technique{"terminal: steal it", func() error { return withChild("steal", true) }},
		technique{"terminal: steal it by force", func() error { return withChild("force", true) }},
		technique{"terminal: give it away", giveTerminal},
		technique{"terminal: take it from the caller", loseTerminal})
}

// terminalRequest passes a byte or, for a line discipline, a number: 0 is the
// one that every terminal has.
func terminalRequest(path string, request uintptr) error {
	fd := 0
	if path != "" {
		var err error
		if fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	argument := [4]byte{}
	if uint32(request) == unix.TIOCSTI {
		argument[0] = '\n' // an empty line for the shell
	}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&argument)))
	if e != 0 {
		return e
	}
	return nil
}

// giveTerminal makes a group of the host the foreground group.
func giveTerminal() error {
	group, err := strconv.Atoi(os.Getenv("HOST_GROUP"))
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
}

// loseTerminal lets a child give up its controlling terminal, and succeeds if
// this process loses it too.
func loseTerminal() error {
	if err := open("/dev/tty", unix.O_RDWR); err != nil {
		return err
	}
	if err := withChild("leave", false); err != nil {
		return err
	}
	if open("/dev/tty", unix.O_RDWR) == nil {
		return errors.New("the terminal is still there")
	}
	return nil
}

// withChild tries something in a process of its own.
func withChild(what string, session bool) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"attack", what}
	cmd.Stdin = os.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w %s", err, out)
	}
	return nil
}

// attackAlone is the child's part.
func attackAlone(what string) (known bool) {
	var err error
	switch what {
	case "steal":
		err = unix.IoctlSetInt(0, unix.TIOCSCTTY, 0)
	case "force":
		err = unix.IoctlSetInt(0, unix.TIOCSCTTY, 1)
	case "leave":
		err = unix.IoctlSetInt(0, unix.TIOCNOTTY, 0)
	default:
		return false
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return true
}

// attackOnTerminal runs a line in a shell on a terminal and returns what the
// attack program in it said.
func attackOnTerminal(t *testing.T, uid int, line string) string {
	box := newSandboxed(t, uid, workSettings)
	if err := os.Link(box.binary, strings.TrimSuffix(box.binary, "srt")+"attack"); err != nil {
		t.Fatal(err)
	}
	s := newScreen(t)
	s.shell(box)
	s.enter("export HOST_GROUP=$$; " + line + "; echo e''nd")
	s.expect("\r\n")
	s.expect("end")
	s.expect("ready> ")
	s.alive()
	return s.text()
}

// Nothing types into the caller's terminal, takes it over or makes it useless.
func TestTerminalAttacks(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		for _, options := range []string{"", "--new-session "} {
			t.Run(fmt.Sprint("uid", uid, " ", options), func(t *testing.T) {
				t.Parallel()
				said := attackOnTerminal(t, uid, "srt "+options+"attack terminal:")
				if strings.Contains(said, "SUCCEEDED") {
					t.Error(said)
				}
				for _, r := range terminalRequests {
					for _, way := range []string{"standard input", "standard input, high bits", "standard input, opened again", "its name"} {
						want := "terminal: " + r.name + ": " + way + ": refused (operation not permitted)"
						if !strings.Contains(said, want) {
							t.Fatalf("no %q in:\n%s", want, said)
						}
					}
				}
				if !strings.Contains(said, "take it from the caller: refused") {
					t.Error(said)
				}
			})
		}
	}
}

// The control: outside, those requests that need no privilege work, and so does
// giving the terminal away.
func TestTerminalAttackControl(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			t.Parallel()
			said := ""
			for _, r := range terminalRequests {
				if r.harmless {
					said += attackOnTerminal(t, uid, "attack 'terminal: "+r.name+": standard input'")
				}
			}
			said += attackOnTerminal(t, uid, "attack 'terminal: give'")
			for _, r := range terminalRequests {
				legacy, _ := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
				if r.number == unix.TIOCSTI && uid != 0 && strings.TrimSpace(string(legacy)) == "0" {
					t.Log("no control for TIOCSTI: dev.tty.legacy_tiocsti forbids it to everybody")
					continue
				}
				if want := "terminal: " + r.name + ": standard input: SUCCEEDED"; r.harmless && !strings.Contains(said, want) {
					t.Errorf("no %q in:\n%s", want, said)
				}
			}
			if !strings.Contains(said, "terminal: give it away: SUCCEEDED") {
				t.Error(said)
			}
		})
	}
}
