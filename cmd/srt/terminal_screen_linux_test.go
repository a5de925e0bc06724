package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// The command sees the size of the terminal, and hears of a change.
func TestTerminalResize(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"command": `srt -c "$SCRIPT"`, "pipeline": `srt -c "$SCRIPT" | cat`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				s.shell(box)
				s.enter(`SCRIPT='trap "size; echo chan""ged" WINCH; size() { stty size </dev/tty; }; size; echo go$((1)); while [ ! -e end ]; do sleep 0.05; done'; export SCRIPT`)
				s.expect("ready> ")
				s.enter(line)
				s.expect("24 80")
				s.expect("go1")
				s.resize(33, 101)
				s.expect("33 101")
				s.expect("changed")
				if err := os.WriteFile(filepath.Join(box.dir, "end"), nil, 0o644); err != nil {
					s.Fatal(err)
				}
				s.expect("ready> ")
			})
		})
	}
}

// A command that had no chance to put the terminal back leaves it as it was; one
// that ended by itself may change it.
func TestTerminalSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"killed":         {"srt -c 'stty raw -echo; kill -9 $$'", " icanon"},
		"escalated":      {"srt -c 'stty raw -echo; trap \"\" TERM; echo stub\"\"born; while :; do sleep 1; done'", " icanon"},
		"in a pipe":      {"srt -c 'stty raw -echo </dev/tty; kill -9 $$' | cat", " icanon"},
		"set on purpose": {"srt stty -icanon", " -icanon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				s.shellWith(box, "bash", "--norc", "--noprofile", "--noediting", "-i")
				// The script around it does not put the terminal back itself.
				s.enter(`bash -c '` + strings.ReplaceAll(c.line, "'", `'\''`) + `; stty -a; echo over''1'`)
				if name == "escalated" {
					s.expect("stubborn")
					_ = unix.Kill(s.running("srt -c stty").pid, unix.SIGTERM)
				}
				s.expect(c.want)
				s.expect("over1")
			})
		})
	}
}

// A pager in a pipeline keeps the terminal, and a command that wants it late gets
// it.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		// The reader stands for a pager: it reads keys while srt runs.
		s.enter(`srt -c 'echo page$((1)); ` + mark() + `' | bash -c 'read line; echo $line; read key </dev/tty; echo key$key'`)
		s.expect("page1")
		s.enter("5")
		s.expect("key5")
		s.press(ctrlC)
		s.expect("ready> ")
		s.enter(`echo data$((1)) | srt -c 'cat; echo go$((1)); read a </dev/tty; echo got$a'`)
		s.expect("data1")
		s.expect("go1")
		s.enter("8")
		s.expect("got8")
		s.expect("ready> ")
		s.enter(`x=$(srt -c 'echo go$((2)) >/dev/tty; read a </dev/tty; echo got$a'); echo $x`)
		s.expect("go2")
		s.enter("9")
		s.expect("got9")
		s.expect("ready> ")
		s.enter("yes | srt head -1; srt yes | head -1; echo status${PIPESTATUS[0]}")
		s.expect("y\r\n")
		s.expect("y\r\n")
		s.expect("status141")
		s.expect("ready> ")
		s.alive()
	})
}

// Input and output are the terminal or not, in every combination.
func TestTerminalStreams(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		test := `r=; for i in 0 1 2; do test -t $i && r=${r}t || r=${r}f; done; echo $r </dev/tty >/dev/tty; tty; exit 0`
		for redirection, want := range map[string]string{"": "ttt", "| cat": "tft", "</dev/null": "ftt", "</dev/null 2>&1 | cat": "fff"} {
			s.enter("srt -c '" + test + "' " + redirection + "; echo e''nd")
			s.expect(want)
			if strings.HasPrefix(want, "t") {
				s.expect("/dev/console")
			}
			s.expect("end")
			s.expect("ready> ")
		}
	})
}

// A prompt for a password reads the terminal without echo.
func TestTerminalPassword(t *testing.T) {
	t.Parallel()
	for _, redirection := range []string{"", "| cat", "</dev/null", "</dev/null | cat"} {
		t.Run(redirection, func(t *testing.T) {
			t.Parallel()
			onTerminal(t, func(s *screen, box *sandboxed) {
				s.shell(box)
				s.enter(`srt -c 'read -s -p "pass""word: " p </dev/tty; echo; echo got${#p}' ` + redirection)
				s.expect("password: ")
				s.enter("secret")
				s.expect("got6")
				s.expect("ready> ")
				if strings.Contains(s.text(), "secret") {
					s.Error("the password was shown")
				}
				s.alive()
			})
		})
	}
}

// Programs see themselves in the foreground from their first moment.
func TestTerminalForegroundFromTheStart(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		for range 20 {
			s.enter("srt -c 'read -r _ _ _ _ group _ _ front _ </proc/self/stat; echo $group=$front'")
			s.expect("1=1\r\n")
			s.expect("ready> ")
		}
	})
}

// cli 30, linux 114, reference behaviour: no terminal, no job control.
func TestTerminalNewSession(t *testing.T) {
	t.Parallel()
	onTerminal(t, func(s *screen, box *sandboxed) {
		s.shell(box)
		s.enter(`srt --new-session -c 'cat /dev/tty; read a; echo got$a'`)
		s.expect("No such device or address")
		s.enter("4")
		s.expect("got4")
		s.expect("ready> ")
		s.enter("srt --new-session bash --norc -i -c 'echo r''an'")
		s.expect("no job control")
		s.expect("ran")
		s.expect("ready> ")
		// Ctrl-C goes through srt.
		s.enter(`srt --new-session -c 'trap "echo int""errupted; exit 3" INT; echo go$((1)); while :; do sleep 0.05; done'; echo status$?`)
		s.expect("go1")
		s.press(ctrlC)
		s.expect("interrupted")
		s.expect("status3")
		s.expect("ready> ")
		m := mark()
		s.enter("srt --new-session " + m)
		s.jobInForeground()
		s.commandStarted(m)
		s.press(ctrlZ)
		s.expect("Stopped")
		s.expect("ready> ")
		s.enter("kill %1")
		s.expect("ready> ")
		s.alive()
	})
}

// commandStarted waits for a command in whatever session.
func (s *screen) commandStarted(text string) {
	s.Helper()
	(&screen{T: s.T}).commandRuns(text)
}

// tmux is a terminal with a screen that can be read.
type tmux struct {
	*screen
	box    *sandboxed
	socket string
}

func newTmux(t *testing.T, box *sandboxed, program, line string) *tmux {
	t.Helper()
	for _, name := range []string{"tmux", program} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: %v", name, err)
		}
	}
	x := &tmux{screen: &screen{T: t}, box: box, socket: filepath.Join(box.tmp, "tmux")}
	x.do("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='ready> ' bash --norc --noprofile")
	t.Cleanup(func() { _ = x.command("kill-server").Run() })
	x.shows("ready>")
	x.keys(line, "Enter")
	return x
}

func (x *tmux) command(args ...string) *exec.Cmd {
	cmd := x.box.command()
	cmd.Path, _ = exec.LookPath("tmux")
	cmd.Args = append([]string{"tmux", "-S", x.socket}, args...)
	cmd.Env = append(cmd.Env, "TERM=xterm", "LANG=C.UTF-8", "SHELL=/bin/bash")
	cmd.Env[0] = "PATH=" + filepath.Dir(x.box.binary) + ":/usr/local/bin:/usr/bin:/bin"
	return cmd
}

func (x *tmux) do(args ...string) string {
	x.Helper()
	out, err := x.command(args...).CombinedOutput()
	if err != nil {
		x.Fatalf("tmux %q: %v %s", args, err, out)
	}
	return string(out)
}

func (x *tmux) keys(keys ...string) {
	x.Helper()
	x.do(append([]string{"send-keys"}, keys...)...)
}

// shows waits until the visible screen has a text.
func (x *tmux) shows(text string) {
	x.Helper()
	now := ""
	if !testutil.Within(testutil.Patience, func() bool { now = x.do("capture-pane", "-p"); return strings.Contains(now, text) }) {
		x.Fatalf("waited for %q; the screen:\n%s", text, now)
	}
}

// showsAfter presses keys, time and again, until the visible screen has a text.
func (x *tmux) showsAfter(text string, keys ...string) {
	x.Helper()
	now := ""
	shown := testutil.Within(testutil.Patience, func() bool {
		x.keys(keys...)
		time.Sleep(200 * time.Millisecond)
		now = x.do("capture-pane", "-p")
		return strings.Contains(now, text)
	})
	if !shown {
		x.Fatalf("waited for %q; the screen:\n%s", text, now)
	}
}

// Editors, pagers and monitors work and give the terminal back.
func TestTerminalPrograms(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			t.Parallel()
			t.Run("vi", func(t *testing.T) {
				t.Parallel()
				box := newSandboxed(t, uid, workSettings)
				x := newTmux(t, box, "vi", "srt -s ../settings.json vi -u NONE -n text")
				x.shows("~")
				x.keys("i", "hello", "Escape")
				x.shows("hello")
				x.keys("C-z")
				x.shows("Stopped")
				x.keys("echo out''side; fg", "Enter")
				x.shows("~")
				x.shows("hello")
				x.do("resize-window", "-x", "60", "-y", "15")
				// tmux tells the programs of a new size with a delay.
				x.showsAfter("15 60", ":echo &lines &columns", "Enter")
				x.keys("Enter", ":wq", "Enter")
				x.shows("ready>")
				x.keys("clear; cat text; stty -a", "Enter")
				x.shows("hello")
				x.shows(" icanon")
			})
			t.Run("less", func(t *testing.T) {
				t.Parallel()
				box := newSandboxed(t, uid, workSettings)
				numbers(t, box)
				x := newTmux(t, box, "less", "srt less numbers")
				x.shows("numbers")
				x.keys("G")
				x.shows("500")
				x.keys("C-z")
				x.shows("Stopped")
				x.keys("clear", "Enter", "fg", "Enter")
				x.shows("500")
				x.keys("q")
				x.shows("ready>")
				x.keys("clear", "Enter", "srt cat numbers | less", "Enter")
				x.shows("23")
				x.keys("G")
				x.shows("500")
				x.keys("q")
				x.shows("ready>")
				x.keys("clear", "Enter", "cat numbers | srt less", "Enter")
				x.shows("23")
				x.keys("G")
				x.shows("500")
				x.keys("q")
				x.shows("ready>")
				x.keys("clear", "Enter", "echo en''d", "Enter")
				x.shows("end")
			})
			t.Run("top", func(t *testing.T) {
				t.Parallel()
				x := newTmux(t, newSandboxed(t, uid, workSettings), "top", "srt top -d 0.2")
				x.shows("COMMAND")
				x.shows("load average")
				x.keys("q")
				x.shows("ready>") // top drops what is typed before it has ended
				x.keys("echo en''d", "Enter")
				x.shows("end")
			})
		})
	}
}

func numbers(t *testing.T, box *sandboxed) {
	t.Helper()
	text := ""
	for n := range 500 {
		text += fmt.Sprintln(n + 1)
	}
	if err := os.WriteFile(filepath.Join(box.dir, "numbers"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
