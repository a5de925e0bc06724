package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
)

// Ctrl-Z gives the prompt back, and the shell's fg, bg, jobs and kill work, also
// where bwrap stands between srt and the command, and without namespaces.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	lines := map[string]string{"command": "srt MARK", "pipeline": "srt MARK | cat", "script": "bash -c 'srt MARK; true'"}
	for _, backend := range append(slices.Clone(mountBackends), config.BackendLandlock) {
		for name, line := range lines {
			t.Run(backend+"/"+name, func(t *testing.T) {
				t.Parallel()
				onTerminalWith(t, backend, func(s *screen, box *sandboxed) { s.stopAndContinue(box, line) })
			})
		}
	}
}

func (s *screen) stopAndContinue(box *sandboxed, line string) {
	s.Helper()
	m := mark()
	s.shell(box)
	s.enter(strings.ReplaceAll(line, "MARK", m))
	s.commandRuns(m)
	s.press(ctrlZ)
	s.expect("Stopped")
	s.expect("ready> ")
	s.stopped(m)
	s.enter("jobs; echo list$((1))")
	s.expect("Stopped")
	s.expect("list1")
	s.expect("ready> ")

	s.enter("bg")
	s.expect("ready> ")
	s.commandRuns(m)
	s.alive()
	s.enter("jobs")
	s.expect("Running")
	s.expect("ready> ")

	s.enter("fg")
	s.jobInForeground()
	s.press(ctrlZ)
	s.expect("Stopped")
	s.expect("ready> ")
	s.stopped(m)
	s.enter("fg")
	s.commandRuns(m)
	s.jobInForeground()
	s.press(ctrlC)
	s.expect("ready> ")
	s.nothing(m)
	s.alive()
}

// A stopped or a background sandbox can be ended.
func TestTerminalEndStopped(t *testing.T) {
	t.Parallel()
	for _, kill := range []string{"kill %1", "kill -9 %1", "kill -INT %1; fg"} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				m := mark()
				s.shell(box)
				s.enter("srt " + m)
				s.commandRuns(m)
				s.press(ctrlZ)
				s.expect("Stopped")
				s.expect("ready> ")
				s.stopped(m)
				s.enter(kill)
				s.expect("ready> ")
				s.nothing(m)
				s.alive()
			})
		})
	}
}

// A command that ignores SIGTSTP goes on, and one that handles it decides itself.
func TestTerminalStopHandled(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`srt -c 'trap "" TSTP; echo go$((1)); read a; echo got$a'`)
		s.expect("go1")
		s.press(ctrlZ)
		s.enter("5")
		s.expect("got5")
		s.expect("ready> ")
		s.enter(`srt -c 'trap "echo handl""ed; kill -STOP \$\$; echo contin""ued" TSTP; setsid ` + mark() + ` & echo go$((2)); while :; do wait; done'`)
		s.expect("go2")
		s.press(ctrlZ)
		s.expect("handled")
		s.expect("Stopped")
		s.expect("ready> ")
		s.enter("fg")
		s.jobInForeground()
		s.expect("continued")
		s.press(ctrlC)
		s.expect("ready> ")
		s.alive()
	})
}

// Signals of a terminal stay signals when there is none.
func TestStopWithoutTerminal(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			t.Parallel()
			s, m := &screen{T: t}, mark()
			cmd := newSandboxed(t, uid, workSettings).command("-c", m)
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			// The kernel stops only groups that somebody of their session could continue.
			cmd.SysProcAttr.Setpgid = true
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			s.commandRuns(m)
			_ = cmd.Process.Signal(unix.SIGTSTP)
			s.stopped(m)
			time.Sleep(10 * time.Millisecond)
			_ = cmd.Process.Signal(unix.SIGCONT)
			s.commandRuns(m)
			_ = cmd.Process.Signal(unix.SIGTERM)
			s.ends(cmd, 143)
			s.nothing(m)
		})
	}
}
