package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Ctrl-C refuses, and goes to the command as usual.
func TestAskInterrupt(t *testing.T) {
	t.Parallel()
	for _, redirect := range []string{"", " | cat"} {
		t.Run(redirect, func(t *testing.T) {
			t.Parallel()
			asking(t, "", func(s *screen, box *sandboxed) {
				s.enter(`srt -s $S --ask -c '. ./try.sh; trap "echo int$((1))" INT; try 127.0.0.1:9; echo end$((1))'` + redirect)
				s.expect(askEnd)
				s.press(ctrlC)
				s.expect("srt: refused")
				s.expect("ready> ")
				if got := s.text(); redirect == "" && (!strings.Contains(got, "int1") || !strings.Contains(got, "end1")) {
					s.Errorf("%s", got)
				}
				s.enter(`srt -s $S --ask -c '. ./try.sh; try 127.0.0.1:9; echo fi""nished'`)
				s.expect(askEnd)
				s.press(ctrlC)
				s.expect("ready> ")
				s.enter("echo status$?")
				s.expect("status130")
				s.expect("ready> ")
				if strings.Contains(s.text(), "finished") {
					s.Errorf("%s", s.text())
				}
				s.alive()
			})
		})
	}
}

// A signal for the command ends the question: its handler must run.
func TestAskAndSignals(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask -c '. ./try.sh; trap "echo term$((1)); exit 7" TERM; try 127.0.0.1:9'; echo status$?`)
		s.expect(askEnd)
		_ = unix.Kill(s.running("srt -s").pid, unix.SIGTERM)
		s.expect("term1")
		s.expect("status7")
		s.expect("ready> ")
		s.alive()

		// What is killed at a question leaves a terminal that works.
		m := mark()
		s.enter(`srt -s $S --ask -c '. ./try.sh; ` + m + ` & try 127.0.0.1:9'; echo killed$?`)
		s.expect(askEnd)
		_ = unix.Kill(s.running("srt -s").pid, unix.SIGKILL)
		s.expect("killed137")
		s.nothing(m)
		s.expect("ready> ")
		s.enter("stty sane")
		s.alive()
	})
}

// In the background a question stops the job as reading the terminal does, until
// it is in the foreground.
func TestAskInBackground(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask -c '. ./try.sh; try 127.0.0.1:9; read x; echo got$x' &`)
		s.wait("the stop", func() bool {
			for _, p := range s.jobs("srt -s") {
				if p.state == "T" && p.group != s.foreground() && !strings.HasPrefix(p.line, "bash") {
					return true
				}
			}
			return false
		})
		s.alive()
		if strings.Contains(s.text(), askEnd) {
			s.Error("the question came from the background")
		}
		s.enter("fg")
		s.expect(askEnd)
		s.enter("y")
		s.expect("[127.0.0.1:9: 502")
		s.enter("x")
		s.expect("gotx")
		s.expect("ready> ")
		s.alive()
	})
}
