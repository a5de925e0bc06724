package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	srt "github.com/srt-sandbox/srt"
)

func TestReplies(t *testing.T) {
	for line, want := range map[string]reply{
		"y": replyOnce, " YES ": replyOnce, "once": replyOnce, "r": replyRun, "run": replyRun, "": replyNo, "n": replyNo, "No": replyNo,
		"v": replyNever, "never": replyNever, "q": replyQuit, "quit": replyQuit,
	} {
		if got, ok := parseReply(line); !ok || got != want {
			t.Errorf("%q: %v %v", line, got, ok)
		}
	}
	for _, line := range []string{"ye", "yy", "allow", "1", "y y", "\x00y", strings.Repeat("y", 100)} {
		if got, ok := parseReply(line); ok || got != replyNo {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	for input, want := range map[string]string{"y\n": "y", "yes\nmore\n": "yes", "\n": "", strings.Repeat("y", 10_000) + "\n": strings.Repeat("y", maxAnswer+1)} {
		for _, r := range []io.Reader{strings.NewReader(input), iotest.OneByteReader(strings.NewReader(input))} {
			if got, err := readAnswer(r); err != nil || got != want {
				t.Errorf("%.20q: %q %v", input, got, err)
			}
		}
	}
	for _, input := range []string{"", "y", "y\x03\n", "\x1c"} {
		if got, err := readAnswer(strings.NewReader(input)); err == nil || got != "" {
			t.Errorf("%q: %q", input, got)
		}
	}
	if _, err := readAnswer(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// The answers that are remembered are bounded; without room one holds once.
func TestAnswersAreBounded(t *testing.T) {
	a := &asker{m: newMessages(io.Discard, false), known: map[string]answer{}}
	for i := range maxKnown + 10 {
		a.take(destination(srt.AskRequest{Host: "h", Port: i}), replyRun)
	}
	if len(a.known) != maxKnown {
		t.Errorf("%d answers", len(a.known))
	}
	if d := a.take("new", replyRun); !d.Allow {
		t.Error("a full memory refuses")
	}
}

// An answer for one connection holds for others to the same host and port that were
// made at the same time, however they spell the host, and for nothing else.
func TestAnswersForABurst(t *testing.T) {
	key := func(host string, port int) string { return destination(srt.AskRequest{Host: host, Port: port}) }
	for r, allowed := range map[reply]bool{replyOnce: true, replyNo: false} {
		a := &asker{m: newMessages(io.Discard, false), known: map[string]answer{}}
		asked := key("h.test", 443)
		a.take(asked, r)
		if d, ok := a.answered(asked, time.Now()); !ok || d.Allow != allowed {
			t.Errorf("answer %v: %v %v", r, d, ok)
		}
		for _, other := range []string{key("h.test", 80), key("a.h.test", 443), key("h.tes", 443), key("::1", 443)} {
			if d, ok := a.answered(other, time.Now()); ok {
				t.Errorf("answer %v is one about %s: %v", r, other, d)
			}
		}
		over := a.known[asked]
		if d := time.Until(over.ends); d <= 0 || d > burst {
			t.Errorf("it holds for %v", d)
		}
		over.ends = time.Now()
		a.known[asked] = over
		if d, ok := a.answered(asked, time.Now()); ok {
			t.Errorf("answer %v still holds: %v", r, d)
		}
	}
}

// dialog is a terminal at which nobody answers before the question is taken back.
type dialog struct {
	strings.Builder
	take func()
}

func (d *dialog) Read([]byte) (int, error) {
	d.take()
	return 0, os.ErrDeadlineExceeded
}

// Who answers a question that has just been taken back does not answer the next.
func TestQuestionTakenBack(t *testing.T) {
	a := &asker{m: newMessages(io.Discard, false), timeout: time.Minute}
	for _, c := range []struct {
		cause error
		waits bool
	}{{nil, true}, {errors.New("it went on"), true}, {os.ErrProcessDone, false}, {fmt.Errorf("a signal: %w", context.Canceled), false}} {
		took := afterTaken
		for try := 0; try == 0 || !c.waits && try < 10 && took >= afterTaken; try++ { // a busy machine waits, too
			ctx, cancel := context.WithCancelCause(t.Context())
			d := &dialog{take: func() { cancel(c.cause) }}
			start := time.Now()
			_, err := a.talk(ctx, d, srt.AskRequest{Host: "h", Port: 1})
			if took = time.Since(start); err == nil || !strings.Contains(d.String(), "the question is off") {
				t.Errorf("%v: %v: %q", c.cause, err, d.String())
			}
		}
		if took < afterTaken == c.waits {
			t.Errorf("%v: it took %v", c.cause, took)
		}
	}
}

func TestShortTime(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Second: "1s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 61 * time.Minute: "1h1m", 10 * time.Minute: "10m"} {
		if got := shortTime(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}
