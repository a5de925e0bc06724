package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// askScript defines try, which asks the proxy for a tunnel and prints what it
// answers. Nobody listens on the port, so what is allowed gives 502.
const askScript = `try() {
    exec 3<>/dev/tcp/127.0.0.1/3128
    printf 'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' "$1" >&3
    IFS= read -r line <&3
    line=${line#HTTP/1.1 }
    echo "[$1: ${line%?}]"
    exec 3>&-
}
`

// asking runs a test with a shell on a terminal that has askScript as a file.
func asking(t *testing.T, settings string, test func(s *screen, box *sandboxed)) {
	if settings == "" {
		settings = workSettings
	}
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			t.Parallel()
			s, box := newScreen(t), newSandboxed(t, uid, settings)
			if err := os.WriteFile(filepath.Join(box.dir, "try.sh"), []byte(askScript), 0o644); err != nil {
				t.Fatal(err)
			}
			s.shell(box)
			s.enter("export S=" + box.settings)
			s.expect("ready> ")
			test(s, box)
		})
	}
}

// askEnd is how a question ends.
const askEnd = "no answer in "

// network 43: the answers, each told to the client; nothing of them is read from
// the command's input, and nothing that was typed before is an answer.
func TestAskAnswers(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"y\r": "502 Bad Gateway", "Yes\r": "502 Bad Gateway", "r\r": "502 Bad Gateway",
		"n\r": "403 user denied", "\r": "403 user denied", "v\r": "403 user denied for this run",
		"\x04": "403 user denied", "yn\x7f\r": "502 Bad Gateway", "yy\ray\rok\r": "403 user denied",
	} {
		t.Run(fmt.Sprintf("%q", keys), func(t *testing.T) {
			t.Parallel()
			asking(t, "", func(s *screen, box *sandboxed) {
				s.enter(`printf 'input$((1))\n' | srt -s $S --ask -c '. ./try.sh; echo on$((1)); while [ ! -e go ]; do sleep 0.05; done; try 127.0.0.1:9; cat'`)
				s.expect("on1")
				s.press("y\r")
				s.press("y\r")
				if err := os.WriteFile(filepath.Join(box.dir, "go"), nil, 0o644); err != nil {
					s.Fatal(err)
				}
				s.expect("srt: a connection to 127.0.0.1:9, which no list mentions, is wanted by: . ./try.sh; echo on$((1)); ")
				s.expect(askEnd)
				s.press(keys)
				s.expect("[127.0.0.1:9: " + want + "]")
				s.expect("input$((1))")
				s.expect("ready> ")
				s.alive()
			})
		})
	}
}

// Answers for the run hold for the destination, the others for one connection.
func TestAskRemembers(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct {
		again bool
		first string
	}{"y": {true, "502"}, "n": {true, "403"}, "r": {false, "502"}, "v": {false, "403"}} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			asking(t, "", func(s *screen, box *sandboxed) {
				s.enter(`srt -s $S --ask -c '. ./try.sh; try 127.0.0.1:9; sleep 1.5; try 127.1:9; try 127.0.0.1:10'`)
				s.expect(askEnd)
				s.enter(answer)
				s.expect("[127.0.0.1:9: " + c.first)
				if c.again {
					s.expect("to 127.0.0.1:9,")
					s.expect(askEnd)
					s.enter(answer)
				}
				s.expect("[127.1:9: " + c.first)
				s.expect("to 127.0.0.1:10,")
				s.expect(askEnd)
				s.enter("n")
				s.expect("[127.0.0.1:10: 403 user denied]")
				s.expect("ready> ")
			})
		})
	}
}

// Whoever has had enough is not asked again.
func TestAskNoMore(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask --ask-timeout 90s -c '. ./try.sh; for i in 1 2 3; do try h$i.invalid:1; done'`)
		s.expect("Allow it (no answer in 1m30s: no)?")
		s.enter("q")
		for i := range 3 {
			s.expect(fmt.Sprintf("[h%d.invalid:1: 403 user denied for this run]", i+1))
		}
		s.expect("ready> ")
		if n := strings.Count(s.text(), "a connection to"); n != 1 {
			s.Errorf("%d questions:\n%s", n, s.text())
		}
	})
}

// network 48: equal questions at the same time are one, others queue, and who
// does not answer one does not get those behind it.
func TestAskQueue(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.questions(2, true, `srt -s $S --ask -c '. ./try.sh; for h in a a b b a; do try $h.invalid:1 & done; wait'`,
			map[string]int{"[a.invalid:1: 403 user denied]": 3, "[b.invalid:1: 403 user denied]": 2})
		s.questions(1, false, `srt -s $S --ask --ask-timeout 2 -c '. ./try.sh; try c.invalid:1 & try d.invalid:1 & wait'`,
			map[string]int{"403 nobody answered the question in time]": 2})
		s.alive()
	})
}

// Connections that an earlier answer settles do not stop the command once more: with
// hundreds of them it would hardly run, and each time lose what was typed.
func TestAskSettlesWithoutStopping(t *testing.T) { // not beside others: it keeps the machine busy
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`mkfifo fifo; srt -s $S --ask bash -c '. ./try.sh; (trap "echo went on >>stops" CONT; >stops; while :; do read -t 0.01 <>fifo; done) & k=$!; until [ -e stops ]; do sleep 0.01; done; for i in {1..40}; do try h$i.invalid:1 & p+=" $!"; done; wait $p; until [ -s stops ]; do sleep 0.01; done; kill $k'`)
		s.expect(askEnd)
		time.Sleep(time.Second) // until the others wait behind it
		s.enter("q")
		s.expect("ready> ")
		if n := strings.Count(s.text(), ": 403 user denied for this run]"); n != 40 {
			s.Errorf("%d answers", n)
		}
		stops, err := os.ReadFile(filepath.Join(box.dir, "stops"))
		if n := strings.Count(string(stops), "\n"); err != nil || n > 3 {
			s.Errorf("stopped %d times (%v)", n, err)
		}
	})
}

// questions enters a line, answers no to each question or waits for its end, and
// checks how often each text appears. What asks too late on a busy machine, when the
// answer to the others does not hold any more, asks again: then it tries once more.
func (s *screen) questions(want int, answer bool, line string, texts map[string]int) {
	s.Helper()
	for range 5 {
		before, n := len(s.text()), 0
		s.enter(line + "; echo over$((1))")
		for s.expect("srt: a connection to ", "over1") != "over1" {
			n++
			s.expect(askEnd)
			if answer {
				s.enter("n")
			} else {
				s.expect("no answer: refused")
			}
		}
		s.expect("ready> ")
		got := s.text()[before:]
		for text, count := range texts {
			if strings.Count(got, text) != count {
				s.Errorf("%q should be there %d times:\n%s", text, count, got)
			}
		}
		if n == want {
			return
		}
	}
	s.Errorf("%d questions expected:\n%s", want, s.text())
}

// After three questions without an answer nobody is asked any more.
func TestAskNobodyThere(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask --ask-timeout 1s -c '. ./try.sh; for i in 1 2 3 4 5; do try h$i.invalid:1; done'`)
		s.expect("[h3.invalid:1: 403 nobody answered")
		s.expect("[h4.invalid:1: 403 nobody answered")
		s.expect("[h5.invalid:1: 403 nobody answered")
		s.expect("ready> ")
		if got := s.text(); strings.Count(got, "a connection to") != 3 || !strings.Contains(got, "3 questions in a row were not answered; nobody is asked any more") {
			s.Errorf("%s", got)
		}
	})
}

// A command that is reading the terminal when the question comes gets none of
// the answer, and what is typed later; its terminal settings are the same then.
func TestAskWhileReading(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ options, setUp, redirect string }{
		"lines":       {},
		"raw":         {setUp: "stty raw -echo; "},
		"new session": {options: "--new-session "},
		"pipeline":    {redirect: " | cat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asking(t, "", func(s *screen, box *sandboxed) {
				// A process that is forked while the reader is stopped for the terminal can
				// stay stopped, which is the kernel's doing: what waits forks nothing.
				name := filepath.Join(box.dir, "go")
				if err := unix.Mkfifo(name, 0o600); err != nil {
					s.Fatal(err)
				}
				if err := os.Chown(name, box.uid, box.uid); err != nil {
					s.Fatal(err)
				}
				start, err := os.OpenFile(name, os.O_RDWR, 0)
				if err != nil {
					s.Fatal(err)
				}
				defer start.Close()
				s.enter(`srt -s $S --ask ` + c.options + `-c '. ./try.sh; ` + c.setUp + `stty -g >one; (read <go; try 127.0.0.1:9) & read -rsn3 -p read""ing x; echo got$x; stty -g >two; stty sane; wait'` + c.redirect)
				s.expect("reading")
				time.Sleep(100 * time.Millisecond) // until it reads
				if _, err := start.WriteString("\n"); err != nil {
					s.Fatal(err)
				}
				s.expect(askEnd)
				s.enter("y")
				s.expect("[127.0.0.1:9: 502 Bad Gateway]")
				s.press("abc")
				s.expect("gotabc")
				s.expect("ready> ")
				if got := s.text(); strings.Contains(got, "Stopped") {
					s.Errorf("%s", got)
				}
				one, err1 := os.ReadFile(filepath.Join(box.dir, "one"))
				two, err2 := os.ReadFile(filepath.Join(box.dir, "two"))
				if err1 != nil || err2 != nil || string(one) != string(two) {
					s.Errorf("settings %q, then %q", one, two)
				}
				s.alive()
			})
		})
	}
}

// A shell inside does not see its jobs stop, and keeps those stopped that were.
func TestAskInsideShell(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`PS1='inner> ' srt -s $S --ask bash --norc --noprofile -i`)
		s.expect("inner> ")
		m := mark()
		s.enter(m)
		s.wait("the job", func() bool { return s.hasTerminal(m) })
		s.press(ctrlZ)
		s.expect("Stopped")
		s.expect("inner> ")
		for port := range 3 {
			to := fmt.Sprint("127.0.0.1:", 9+port)
			s.enter(`bash -c '. ./try.sh; bash -c "sleep 31337" & sleep 0.2; try ` + to + `; kill $!'`)
			s.expect("srt: a connection")
			s.expect(askEnd)
			s.enter("y")
			s.expect("[" + to + ": 502")
			s.expect("inner> ")
		}
		if n := strings.Count(s.text(), "Stopped"); n != 1 {
			s.Errorf("%d jobs stopped:\n%s", n, s.text())
		}
		s.stopped(m)
		s.enter("kill -9 %1; wait %1") // without the wait bash may still take the job for stopped
		s.expect("inner> ")
		s.nothing(m)
		s.enter("exit")
		s.expect("ready> ")
		s.alive()
	})
}

// The other backends ask as well; without namespaces the processes of the command
// are found by their descent.
func TestAskBackends(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"landlock", "bubblewrap"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			switch _, err := exec.LookPath("bwrap"); {
			case backend == "bubblewrap" && err != nil:
				t.Skip("needs bwrap")
			case backend == "landlock" && inside.LandlockABI() == 0:
				t.Skip("this kernel has no Landlock")
			}
			settings := strings.Replace(workSettings, "{", `{"linux":{"backend":"`+backend+`"},`, 1)
			asking(t, settings, func(s *screen, box *sandboxed) {
				s.enter(`srt -s $S --ask bash -c '. ./try.sh; (sleep 0.3; try 127.0.0.1:9) & read -rsn3 -p read""ing x; echo got$x; wait'`)
				s.expect("reading")
				s.expect(askEnd)
				s.enter("y")
				s.expect("[127.0.0.1:9: 502 Bad Gateway]")
				s.press("abc")
				s.expect("gotabc")
				s.expect("ready> ")
				s.alive()
				s.enter(`srt -s $S --ask bash -c '. ./try.sh; try 127.0.0.1:9; echo fi""nished'`)
				s.expect(askEnd)
				s.press(ctrlC)
				s.expect("ready> ")
				if got := s.text(); strings.Contains(got, "Stopped") || strings.Contains(got, "finished") {
					s.Errorf("%s", got)
				}
				s.alive()
			})
		})
	}
}

// A program that owns the screen draws it again after the question.
func TestAskOverEditor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("vi"); err != nil {
		t.Skip("needs vi")
	}
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`echo the text of the fi""le >text; srt -s $S --ask bash -c '. ./try.sh; (while [ ! -e go ]; do sleep 0.05; done; try 127.0.0.1:9 >answer) & vi text; cat answer; wait'`)
		s.expect("the text of the file")
		if err := os.WriteFile(filepath.Join(box.dir, "go"), nil, 0o644); err != nil {
			s.Fatal(err)
		}
		s.expect(askEnd)
		s.enter("y")
		s.expect("the text of the file")
		s.press("iA \x1b:wq\r")
		s.expect("[127.0.0.1:9: 502")
		s.expect("ready> ")
		got, err := os.ReadFile(filepath.Join(box.dir, "text"))
		if err != nil || string(got) != "A the text of the file\n" {
			s.Errorf("%q, %v", got, err)
		}
		s.alive()
	})
}

// Who connects without a proxy is asked about once, although the question
// interrupts its system call.
func TestAskTransparent(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask bash -c 'exec 3<>/dev/tcp/off.invalid/80; echo over$?'`)
		s.expect("srt: a connection to off.invalid:80, which no list mentions")
		s.expect(askEnd)
		s.enter("n")
		s.expect("Network is unreachable")
		s.expect("over1")
		s.expect("ready> ")
		s.enter(`srt -s $S --ask bash -c 'exec 3<>/dev/tcp/127.0.0.1/9; echo over$?'`) // its own loopback
		s.expect("over1")
		s.enter(`srt -s $S --ask bash -c 'exec 3<>/dev/tcp/192.0.2.1/80; echo over$?; read x <&3; echo read$?'`)
		s.expect("srt: a connection to 192.0.2.1:80,")
		s.expect(askEnd)
		s.enter("r")
		s.expect("over0")
		s.expect("ready> ")
		if n := strings.Count(s.text(), "a connection to"); n != 2 {
			s.Errorf("%d questions:\n%s", n, s.text())
		}
	})
}

// network 41: nobody is asked under strictAllowlist, or without a terminal; both
// are said once, and the lists hold.
func TestAskNobody(t *testing.T) {
	t.Parallel()
	strict := strings.Replace(workSettings, `"deniedDomains"`, `"strictAllowlist":true,"deniedDomains"`, 1)
	asking(t, strict, func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask --allow-domain 127.0.0.1 -c '. ./try.sh; try 127.0.0.1:9; try 127.0.0.1:9'`)
		s.expect("srt: warning: nobody is asked about hosts: network.strictAllowlist is set")
		s.expect("srt: warning: the command's own list of hosts has no effect: network.strictAllowlist is set")
		s.expect("[127.0.0.1:9: 403 host is not on the allow list]")
		s.expect("[127.0.0.1:9: 403 host is not on the allow list]")
		s.expect("ready> ")
	})
	for _, uid := range users() {
		box := newSandboxed(t, uid, workSettings)
		if err := os.WriteFile(filepath.Join(box.dir, "try.sh"), []byte(askScript), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := box.command("--ask", "-c", ". ./try.sh; try 127.0.0.1:9; try 127.0.0.1:9")
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Setsid = true
		out, err := cmd.CombinedOutput()
		want := "srt: warning: --ask has no effect: there is no controlling terminal to ask on; hosts that no list mentions are refused\n" +
			strings.Repeat("[127.0.0.1:9: 403 host is not on the allow list]\n", 2)
		if err != nil || string(out) != want {
			t.Errorf("%v: %s", err, out)
		}
	}
}
