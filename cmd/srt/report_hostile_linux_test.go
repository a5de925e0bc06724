package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// Whether a stream waits or fails where it is full is decided by all who have it: a
// command that makes it fail loses nothing of the report and of the log. Nor does it
// push a refusal out of the report by many others.
func TestReportOnCloggedStreams(t *testing.T) {
	const hosts = 300
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := newSandboxed(t, uid, workSettings)
			cmd := s.command("--violations", "always", "--log", "fd:1", s.program("flood"), "clog", fmt.Sprint(hosts))
			out, outEnd := pipe(t)
			errs, errsEnd := pipe(t)
			cmd.Stdout, cmd.Stderr = outEnd, errsEnd
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			outEnd.Close()
			errsEnd.Close()
			clogged := filepath.Join(s.dir, "clogged")
			testutil.Eventually(t, "the streams to be full", func() bool { _, err := os.Lstat(clogged); return err == nil })
			time.Sleep(200 * time.Millisecond) // until srt has tried to write
			log := make(chan string)
			go func() { data, _ := io.ReadAll(out); log <- string(data) }()
			report, err := io.ReadAll(errs)
			if err != nil {
				t.Fatal(err)
			}
			if got := <-log; strings.Count(got, `.invalid","port":443,"verdict":"deny"`) != hosts || strings.Contains(got, `"lost"`) {
				t.Errorf("the log: %d refusals: %.500q", strings.Count(got, `"verdict":"deny"`), strings.ReplaceAll(got, "full\n", ""))
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			got := strings.ReplaceAll(string(report), "full\n", "")
			for _, want := range []string{
				"<sandbox_violations>\ndeny mkdir ", fmt.Sprintf("\ndeny network-outbound h%d.invalid:443 ", hosts-1), "\n</sandbox_violations>\n",
				fmt.Sprintf("\n%d more refused operations are not listed\n", hosts+1-100),
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing: %.300s", want, got)
				}
			}
		})
	}
}

// The summary counts what is not listed, too.
func TestSummaryCounts(t *testing.T) {
	var b strings.Builder
	if err := writeSummary(&b, []srt.Violation{{Seq: 2, Line: "deny a"}, {Seq: 6, Line: "deny a"}, {Seq: 7, Line: "deny b"}}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "srt refused 7 operation(s):\n  deny a (2 times)\n  deny b\n  and 4 more, which are not listed\n" {
		t.Errorf("%q", got)
	}
}

// Who asks srt to end does not wait for a reader of its report that never reads.
func TestEndingOnCloggedStreams(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, uid := range users() {
			t.Run(fmt.Sprintf("uid%d/%v", uid, late), func(t *testing.T) {
				t.Parallel()
				s := newSandboxed(t, uid, workSettings)
				then := "sleep 1000"
				if late {
					then = "exit 3"
				}
				cmd := s.command("--violations", "always", "-c", s.program("flood")+" clog 1; "+then)
				_, outEnd := pipe(t)
				_, errsEnd := pipe(t)
				cmd.Stdout, cmd.Stderr = outEnd, errsEnd
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				clogged := filepath.Join(s.dir, "clogged")
				testutil.Eventually(t, "the streams to be full", func() bool { _, err := os.Lstat(clogged); return err == nil })
				if late {
					time.Sleep(500 * time.Millisecond) // until the command has ended
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				_ = cmd.Process.Signal(syscall.SIGTERM)
				select {
				case err := <-ended:
					// On a busy machine the command may not have ended yet.
					if err == nil || err.Error() != "exit status 143" && (!late || err.Error() != "exit status 3") {
						t.Error(err)
					}
				case <-time.After(testutil.Patience):
					_ = cmd.Process.Kill()
					t.Error("srt goes on")
				}
			})
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
