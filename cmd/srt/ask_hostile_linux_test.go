package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Nothing that a question shows controls the terminal.
func TestAskIsSanitised(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter(`srt -s $S --ask -c $'. ./try.sh; : \e[31m\xe2\x80\xae \x07</x> ` + strings.Repeat("long", 50) + `\ntry 127.0.0.1:9'`)
		s.expect(askEnd)
		s.mu.Lock()
		shown := string(s.shown[strings.LastIndex(string(s.shown), "srt: a connection"):])
		s.mu.Unlock()
		if strings.ContainsAny(shown, "\x1b\x07\u202e<") || !strings.Contains(shown, "[31m") || !strings.Contains(shown, "/x longlong") || !strings.Contains(shown, "...\r\n") {
			s.Errorf("%q", shown)
		}
		s.enter("n")
		s.expect("ready> ")
	})
}

// goOn is the test program "goon": a process that does not stay stopped, because a
// timer sends it SIGCONT, and writes its own text over a question.
func goOn() {
	if len(os.Args) > 1 && os.Args[1] == "suspend" {
		signal.Ignore(unix.SIGTTOU)                                 // the kernel's objection from the background
		if err := unix.IoctlSetInt(2, unix.TCXONC, 0); err != nil { // TCOOFF
			fmt.Println(err)
		}
		_ = syscall.Exec("/bin/bash", []string{"bash", "-c", ". ./try.sh; try 127.0.0.1:9" + strings.Join(os.Args[2:], " ")}, os.Environ())
		os.Exit(1)
	}
	event := struct {
		value        uintptr
		signal, kind int32
		_            [48]byte
	}{signal: int32(unix.SIGCONT)}
	var timer int32
	if _, _, e := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))); e != 0 {
		fmt.Println("timer_create", e)
		os.Exit(1)
	}
	stopped := make(chan bool)
	if len(os.Args) > 1 {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, unix.SIGCONT)
		go func() {
			for range continued {
				_ = unix.Kill(os.Getpid(), unix.SIGTSTP)
				select {
				case stopped <- true:
				default:
				}
			}
		}()
	}
	// The question is on the terminal by then, also on a busy machine.
	every := [4]int64{2, 0, 2, 0}
	if _, _, e := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&every)), 0, 0, 0); e != 0 {
		fmt.Println("timer_settime", e)
		os.Exit(1)
	}
	out, err := exec.Command("bash", "-c", ". ./try.sh; try 127.0.0.1:9").CombinedOutput()
	fmt.Println(string(out), err)
	if len(os.Args) > 1 {
		<-stopped
	}
}

// A command that draws a question of its own, and sets the terminal up so that the
// real one does not show, is found out.
func TestAskOverDrawing(t *testing.T) {
	t.Parallel()
	for name, drawn := range map[string]string{
		"margins":   `\e[23;24r\e[24;1H`,
		"string":    `\e]2;`,
		"no wrap":   `\e[?7l`,
		"top":       `\e[H`,
		"invisible": `\e[8m`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newSandboxed(t, users()[len(users())-1], workSettings)
			if err := os.WriteFile(filepath.Join(box.dir, "try.sh"), []byte(askScript), 0o644); err != nil {
				t.Fatal(err)
			}
			script := `printf '\e[H\e[2J\n\n\n\n\n\n\n\n\n\n\n\nfake''question\n\n\n\n` + drawn + `'; . ./try.sh; try 127.0.0.1:9 >out; ` + strings.Repeat(":; ", 30)
			if err := os.WriteFile(filepath.Join(box.dir, "draw.sh"), []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			x := newTmux(t, box, "bash", "srt -s ../settings.json --ask -c '. ./draw.sh'")
			x.shows("no answer in 1m: no)?")
			lines := strings.Split(strings.TrimSpace(x.do("capture-pane", "-p")), "\n")
			from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "srt: a connection to 127.0.0.1:9, which") })
			if from < 0 || len(lines)-from > 5 || name == "top" && strings.Contains(strings.Join(lines, ""), "fakequestion") {
				t.Errorf("the screen:\n%s", strings.Join(lines, "\n"))
			}
			if name == "no wrap" && !strings.Contains(strings.ReplaceAll(strings.Join(lines, ""), "\n", ""), "q = refuse and ask no more") {
				t.Errorf("the screen:\n%s", strings.Join(lines, "\n"))
			}
			x.keys("n", "Enter")
			x.shows("ready>")
		})
	}
}

// Nor does it help to suspend the terminal's output.
func TestAskOfSuspended(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter("srt -s $S --ask " + box.binaryCalled("goon") + " suspend")
		s.expect(askEnd)
		s.enter("n")
		s.expect("[127.0.0.1:9: 403 user denied]")
		s.expect("ready> ")
		s.alive()
	})
}

// A terminal whose output a command suspended, which no key undoes, is given back:
// srt itself and the shell write to it.
func TestReportOnSuspended(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		for _, pipe := range []string{"", " | cat"} {
			s.enter("srt -s $S " + box.binaryCalled("goon") + " suspend '>/dev/null'" + pipe)
			s.expect("srt refused 1 operation(s):")
			s.expect("ready> ")
			s.alive()
		}
	})
}

// The main goroutine of the test program "ticks" keeps the first thread, on which
// init functions run.
func init() {
	if filepath.Base(os.Args[0]) == "ticks" {
		runtime.LockOSThread()
	}
}

// ticks is the test program "ticks": a process whose first thread has ended, or is
// held by a debugger, and another one of which writes on.
func ticks() {
	go write()
	if len(os.Args) < 2 {
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
	time.Sleep(time.Hour)
}

func write() {
	runtime.LockOSThread()
	// Nothing of the runtime, which may wait for the thread that is held.
	word, nap := []byte("tock\n"), unix.NsecToTimespec(20e6)
	fmt.Fprintln(os.Stderr, "here")
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&word[0])), uintptr(len(word)))
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
	}
}

// debugged is the test program "debugged": it holds the first thread of ticks.
func debugged() {
	runtime.LockOSThread()
	cmd := exec.Command(os.Args[1], "held")
	cmd.Stdout = os.Stdout
	ready, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = ready.Read(make([]byte, 1)) // it writes from now on
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, request := range []int{unix.PTRACE_SEIZE, unix.PTRACE_INTERRUPT} {
		if err := ptrace(request, cmd.Process.Pid); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	time.Sleep(time.Hour)
}

// Nothing of the command runs during a question, whatever it looks like.
func TestAskStopsAll(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"native", "landlock"} {
		if backend == "landlock" && inside.LandlockABI() == 0 {
			continue
		}
		settings := strings.Replace(workSettings, "{", `{"linux":{"backend":"`+backend+`"},`, 1)
		for _, name := range []string{"ended thread", "debugger", "descent"} {
			t.Run(backend+"/"+name, func(t *testing.T) {
				t.Parallel()
				asking(t, settings, func(s *screen, box *sandboxed) {
					command := map[string]string{
						"ended thread": box.binaryCalled("ticks"),
						"debugger":     box.binaryCalled("debugged") + " " + box.binaryCalled("ticks"),
						// Each process starts the next one and ends.
						"descent": "f() { echo to\"\"ck; f & }; f",
					}[name]
					// A shell without the trap goes on where Ctrl-C meets it after a child that
					// has ended by itself.
					s.enter(`srt -s $S --ask bash -c '. ./try.sh; trap exit INT; ` + command + ` & until [ -e up ]; do sleep 0.05; done; until [ -e enough ]; do (try 127.0.0.1:9); sleep 1; done; sleep 100'`)
					s.expect("tock")
					box.file(filepath.Join(box.dir, "up"), "")
					for i := range 3 {
						s.expect(askEnd)
						time.Sleep(300 * time.Millisecond)
						s.mu.Lock()
						after := string(s.shown[s.seen:])
						s.mu.Unlock()
						if strings.Contains(after, "tock") {
							s.Fatalf("something runs during the question: %.200q", after)
						}
						if i == 2 {
							box.file(filepath.Join(box.dir, "enough"), "")
						}
						s.enter("n")
						s.expect("[127.0.0.1:9: 403")
						s.expect("tock")
					}
					s.press(ctrlC)
					s.expect("ready> ")
				})
			})
		}
	}
}

// A command that goes on during the question, to write something else over it,
// gets no answer.
func TestAskOfEvader(t *testing.T) {
	t.Parallel()
	asking(t, "", func(s *screen, box *sandboxed) {
		s.enter("srt -s $S --ask " + box.binaryCalled("goon"))
		s.expect(askEnd)
		s.expect("srt: the question is off")
		s.expect("--ask: the command went on while the question was on the terminal; the connection is refused")
		s.expect("[127.0.0.1:9: 403 nobody could be asked]")
		s.expect("ready> ")
		s.alive()

		// Nor one that stops again at once, for which srt would stop as well.
		s.enter("srt -s $S --ask " + box.binaryCalled("goon") + " again")
		s.expect(askEnd)
		s.expect("srt: the question is off")
		s.expect("Stopped")
		s.expect("ready> ")
		s.enter("kill -9 %1")
		s.expect("ready> ")
		s.alive()
	})
}
