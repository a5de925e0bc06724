package violation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31m<b>\u202e\nc": "a [31mb c", // cli 72
		"  x \u200b":            "x",
		"\r\n\t":                "",
		"plain / text":          "plain / text",
		"café\u00ad":            "café",
		"</sandbox_violations>": "/sandbox_violations",
		"a\x00\x00\x7fb":        "a b",
		"a\xffb":                "a\ufffdb",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("a\x1b<\u202e>\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := Sanitize(s)
		if again := Sanitize(got); again != got {
			t.Errorf("not stable: %q, then %q", got, again)
		}
		if strings.ContainsAny(got, "<>\n\r\x1b\x00") || strings.ContainsFunc(got, unsafe) {
			t.Errorf("Sanitize(%q) = %q", s, got)
		}
	})
}

func TestTruncate(t *testing.T) {
	if got := Truncate("a\U0001F600b", 2); got != "a" {
		t.Errorf("a character was split: %q", got)
	}
	if got := Truncate("ab", 2); got != "ab" {
		t.Errorf("%q", got)
	}
}

// cli 73: the newest hundred are held, all are counted.
func TestStoreKeepsTheNewest(t *testing.T) {
	s := NewStore()
	for i := range 130 {
		s.Add(Event{Line: fmt.Sprint("line ", i), CommandID: "c"})
	}
	if s.Count() != 100 || s.Total() != 130 {
		t.Errorf("%d held, %d counted", s.Count(), s.Total())
	}
	if l := s.List(2); len(l) != 2 || l[1].Line != "line 129" || l[1].Seq != 130 {
		t.Errorf("newest two: %+v", l)
	}
	if len(s.List(0)) != 0 || len(s.List(-1)) != 100 {
		t.Error("limits")
	}
	s.Clear()
	if s.Count() != 0 || s.Total() != 130 {
		t.Errorf("after Clear: %d held, %d counted", s.Count(), s.Total())
	}
}

func TestNoisyCommandKeepsOthers(t *testing.T) {
	s := NewStore()
	s.Add(Event{Line: "quiet", CommandID: "q"})
	for range 500 {
		s.Add(Event{Line: "noise", CommandID: "n"})
	}
	if own := s.ForCommand("q"); len(own) != 1 {
		t.Errorf("the quiet command has %d events", len(own))
	}
	if len(s.ForCommand("")) != 0 {
		t.Error("an empty id matched")
	}
}

// cli 76, 77: ignored events are not recorded.
func TestIgnore(t *testing.T) {
	s := NewStore()
	s.SetIgnore(map[string][]string{"*": {"x.example"}, "curl quiet": {"y.example"}})
	s.Add(Event{Line: "deny x.example", Command: "anything"})
	s.Add(Event{Line: "deny y.example", Command: "run curl quiet now"})
	if s.Total() != 0 {
		t.Errorf("%d recorded", s.Total())
	}
	s.Add(Event{Line: "deny y.example", Command: "curl loud"})
	s.Add(Event{Line: "deny y.example"})
	if s.Total() != 2 {
		t.Errorf("%d recorded, want 2", s.Total())
	}
}

// cli 78
func TestBlock(t *testing.T) {
	if Block(nil) != "" {
		t.Error("a block without events")
	}
	if got := Block([]Event{{Line: "a"}, {Line: "b"}}); got != "<sandbox_violations>\na\nb\n</sandbox_violations>" {
		t.Errorf("%q", got)
	}
}

// cli 74
func TestSubscribe(t *testing.T) {
	s := NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	ch := s.Subscribe(ctx)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				s.Add(Event{Line: "x"})
			}
		})
	}
	wg.Wait()
	if n := len(ch); n != subscriberBuffer {
		t.Errorf("%d events wait, want the newest %d", n, subscriberBuffer)
	}
	cancel()
	for range ch { //nolint:revive // drain until closed
	}
	s.Add(Event{Line: "after"})
}
