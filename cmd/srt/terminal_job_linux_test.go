package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Keys as a terminal sends them.
const (
	ctrlC         = "\x03"
	ctrlD         = "\x04"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// linux 114: Ctrl-C runs the command's handler, once, wherever the terminal is.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	script := `n=0; trap 'n=$((n+1)); echo int$n' INT; echo go; while [ ! -e end ]; do sleep 0.05; done; echo total$n; exit 7`
	for name, line := range map[string]string{
		"command":  `srt -c "$SCRIPT"; echo status$?`,
		"pipeline": `srt -c "$SCRIPT" | bash -c 'trap "" INT; cat'; echo status${PIPESTATUS[0]}`,
		"script":   `bash -c 'srt -c "$SCRIPT"; echo status$?'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				s.shell(box)
				s.enter("SCRIPT='" + strings.ReplaceAll(script, "'", `'\''`) + "'; export SCRIPT")
				s.expect("ready> ")
				s.enter(line)
				s.expect("go\r\n")
				s.press(ctrlC)
				s.expect("int1")
				if err := os.WriteFile(filepath.Join(box.dir, "end"), nil, 0o644); err != nil {
					s.Fatal(err)
				}
				s.expect("total1")
				s.expect("status7")
				s.expect("ready> ")
				s.alive()
			})
		})
	}
}

// cli 22: what Ctrl-C and Ctrl-\ end has the status that shells give it.
func TestTerminalInterruptStatus(t *testing.T) {
	t.Parallel()
	for key, status := range map[string]int{ctrlC: 130, ctrlBackslash: 131} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				m := mark()
				s.shell(box)
				s.enter("ulimit -c 0; srt " + m)
				s.wait("the command", func() bool { return s.hasTerminal(m) })
				s.press(key)
				s.expect("ready> ")
				s.enter("echo status$?")
				s.expect(fmt.Sprint("status", status))
				s.expect("ready> ")
				s.alive()
			})
		})
	}
}

// hasTerminal reports whether a process whose whole command line is text is in
// the foreground.
func (s *screen) hasTerminal(text string) bool {
	for _, p := range s.jobs(text) {
		if strings.TrimSpace(p.line) == text && p.group == s.foreground() {
			return true
		}
	}
	return false
}

// commandRuns waits for the command itself, not the srt in front of it.
func (s *screen) commandRuns(text string) stat {
	s.Helper()
	var found stat
	s.wait("the command "+text, func() bool {
		for _, p := range s.jobs(text) {
			if strings.TrimSpace(p.line) == text && p.state != "T" {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// A script goes on or ends after its interrupted command as without srt, and so
// does a loop of the shell.
func TestTerminalInterruptInScript(t *testing.T) {
	t.Parallel()
	for _, box := range []string{"", "srt "} {
		for name, c := range map[string]struct{ line, command, want, not string }{
			"command dies":       {`bash -c '` + box + `MARK; echo aft''er'`, "MARK", "ready> ", "after"},
			"command handles it": {`bash -c '` + box + `sh -c "trap \"exit 3\" INT; MARK"; echo aft''er$?'`, "MARK", "after3", ""},
			"script handles it":  {`bash -c 'trap "echo han""dled" INT; ` + box + `MARK; echo aft''er'`, "MARK", "handled\r\nafter", ""},
			"pipeline":           {`bash -c '` + box + `MARK | cat; echo aft''er'`, "MARK", "ready> ", "after"},
			"loop":               {`while :; do ` + box + `MARK; done`, "MARK", "ready> ", ""},
		} {
			t.Run(box+name, func(t *testing.T) {
				t.Parallel()
				onTerminal(t, func(s *screen, box *sandboxed) {
					m := mark()
					s.shell(box)
					s.enter(strings.ReplaceAll(c.line, "MARK", m))
					s.commandRuns(m)
					if strings.Contains(c.line, "| cat") {
						s.commandRuns("cat") // until then it is still the script's shell
					}
					s.press(ctrlC)
					s.expect(c.want)
					if c.not != "" && strings.Contains(s.text(), c.not) {
						s.Errorf("the script went on:\n%s", s.text())
					}
					s.nothing(m)
					s.alive()
				})
			})
		}
	}
}

// shellGroup is the process group of the session's leader.
func (s *screen) shellGroup() int {
	return s.number(unix.TIOCGSID)
}

// jobInForeground waits until the shell has handed the terminal on; what is typed
// before may be the shell's.
func (s *screen) jobInForeground() {
	s.Helper()
	s.wait("a job in the foreground", func() bool { return s.foreground() != s.shellGroup() })
}

// A shell inside has jobs of its own.
func TestTerminalNestedShell(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		one, two := mark(), mark()
		s.shell(box)
		s.enter(`PS1='ins''ide> ' srt bash --norc --noprofile -i`)
		s.expect("inside> ")
		if text := s.text(); strings.Contains(text, "no job control") {
			s.Error(text)
		}
		s.enter(one + " &")
		s.expect("[1]")
		s.expect("inside> ")
		s.enter("fg")
		s.wait("the inner job in the foreground", func() bool { return s.hasTerminal(one) })
		s.press(ctrlZ)
		s.expect("Stopped")
		s.expect("inside> ")
		s.enter("bg")
		s.expect("inside> ")
		s.commandRuns(one)
		s.enter(two)
		s.wait("the inner job in the foreground", func() bool { return s.hasTerminal(two) })
		s.press(ctrlC)
		s.expect("inside> ")
		s.enter("jobs; echo state$((1))")
		s.expect("Running")
		s.expect("state1")
		s.enter("kill %1; wait; suspend")
		s.expect("Stopped")
		s.expect("ready> ")
		s.alive()
		s.enter("fg")
		s.jobInForeground()
		s.enter("echo inner$((1))")
		s.expect("inner1")
		s.expect("inside> ")
		s.press(ctrlD)
		s.expect("ready> ")
		s.alive()
	})
}

// A signal to srt reaches a shell that made itself a group of its own.
func TestTerminalSignalOwnGroup(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`PS1='ins''ide> ' srt bash --norc --noprofile -i; echo status$?`)
		s.expect("inside> ")
		s.enter(`trap 'echo sig""nalled' USR1`)
		s.expect("inside> ")
		_ = unix.Kill(s.running("srt bash --norc").pid, unix.SIGUSR1)
		s.wait("the handler", func() bool {
			s.enter("") // a shell at its prompt may wait for a key
			time.Sleep(20 * time.Millisecond)
			return strings.Contains(s.text(), "signalled")
		})
		s.enter("exit 9")
		s.expect("status9")
		s.expect("ready> ")
		s.alive()
	})
}

// A background sandbox takes nothing from the shell, and using the terminal
// stops it until it is in the foreground.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		m := mark()
		s.shell(box)
		s.enter("srt " + m + " &")
		s.expect("ready> ")
		s.commandRuns(m)
		s.alive()
		s.enter("kill %1; wait; clear")
		s.expect("ready> ")

		s.enter(`srt -c 'read a; echo got$a' &`)
		s.expect("ready> ")
		s.enter("until [[ $(jobs -l) = *Stopped*input* ]]; do :; done; echo waits$((1))")
		s.expect("waits1")
		s.expect("ready> ")
		s.enter("fg")
		s.jobInForeground()
		s.enter("77")
		s.expect("got77")
		s.expect("ready> ")
		s.alive()

		s.enter("stty tostop; srt echo written &")
		s.expect("ready> ")
		s.enter("until [[ $(jobs -l) = *Stopped*output* ]]; do :; done; echo waits$((2))")
		s.expect("waits2")
		s.expect("ready> ")
		before := strings.Count(s.text(), "written")
		s.enter("fg")
		s.wait("the text", func() bool { return strings.Count(s.text(), "written") >= before+2 })
		s.expect("ready> ")
		s.alive()
	})
}

// A sandbox that was continued in the background does not take the terminal
// from the shell when it ends.
func TestTerminalEndInBackground(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`srt -c 'echo go$((1)); while [ ! -e end ]; do sleep 0.05; done'`)
		s.expect("go1")
		s.press(ctrlZ)
		s.expect("Stopped")
		s.expect("ready> ")
		s.enter("bg")
		s.expect("ready> ")
		if err := os.WriteFile(filepath.Join(box.dir, "end"), nil, 0o644); err != nil {
			s.Fatal(err)
		}
		s.nothing("srt -c")
		if s.foreground() != s.shellGroup() {
			s.Errorf("the shell lost the terminal:\n%s", s.processes())
		}
		s.alive()
	})
}

// The terminal goes back to a script that goes on to use it.
func TestTerminalBackToScript(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`bash -c 'srt -c "echo go\$((1)); read a; echo got\$a"; read b; echo then$b; srt bash --norc -ic "echo go\$((2))"; read c; echo last$c'`)
		s.expect("go1")
		s.enter("1")
		s.expect("got1")
		s.enter("2")
		s.expect("then2")
		s.expect("go2")
		s.enter("3")
		s.expect("last3")
		s.expect("ready> ")
		s.alive()
	})
}

// Where no shell can continue it, a job is not stopped: not by Ctrl-Z, and one
// that wants the terminal in the background ends.
func TestTerminalOrphaned(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		cmd := s.start(box.command("-c", "echo go$((1)); read a; echo got$a; exit 4"))
		s.expect("go1")
		s.press(ctrlZ)
		s.enter("6")
		s.expect("got6")
		s.ends(cmd, 4)
	})
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`(bash -c 'until test -e go; do sleep 0.05; done; srt -c "read a </dev/tty"; touch over' &)`)
		s.expect("ready> ")
		if err := os.WriteFile(filepath.Join(box.dir, "go"), nil, 0o644); err != nil {
			s.Fatal(err)
		}
		s.wait("the end", func() bool { _, err := os.Stat(filepath.Join(box.dir, "over")); return err == nil })
		s.alive()
	})
}

// Closing the terminal ends everything.
func TestTerminalHangUp(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"command": "srt MARK", "pipeline": "srt MARK | cat", "script": "bash -c 'srt MARK; true'", "background": "srt MARK &",
		"stubborn": `srt -c 'trap "" HUP; MARK & wait; MARK'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				m := mark()
				s.shell(box)
				s.enter(strings.ReplaceAll(line, "MARK", m))
				s.commandRuns(m)
				s.hangUp()
				s.nothing(m)
				s.nothing("srt")
			})
		})
	}
}

// linux 125: nothing survives SIGKILL, and the shell has a terminal that works.
func TestTerminalKilled(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		m := mark()
		s.shell(box)
		s.enter("srt -c 'stty raw -echo; " + m + "'")
		s.commandRuns(m)
		s.wait("the terminal", func() bool { return s.hasTerminal(m) })
		for _, p := range s.jobs("srt -c stty raw") {
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		s.expect("ready> ")
		s.nothing(m)
		s.alive()
	})
}
