package violation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31m<b>\u202e\nc":    "a [31mb c", // cli 72
		"  x \u200b":               "x",
		"\r\n\t":                   "",
		"plain / text":             "plain / text",
		"café\u00ad":               "café",
		"</sandbox_violations>":    "/sandbox_violations",
		"a\x00\x00\x7fb":           "a b",
		"a\xffb":                   "a\ufffdb",
		"a\x00<\u2066b":            "a b", // what goes between two controls does not split their run
		"a\u2029\ufeff\U000e0041b": "a b",
		"\u180ea\u206fb\ufff9c":    "a b c",
		"\u00a0x\u3000":            "x",
		"日本 e\u0301":               "日本 e\u0301",
		// Letters in characters that nobody sees, for a program that reads the report.
		"a\ufe00\ufe0f\U000e0100\U000e01efb": "a b",
		"a\u034fb\u115f\u3164\uffa0c\u17b4d": "a b c d",
		"a\U0001d173b\U0001bca0\u180bc":      "a b c",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain <x> 日本\u00a0": "plain <x> 日本\u00a0",
		"a\x1b[31m\nb\xff":   `a\x1b[31m\x0ab\xff`,
		"\u202e\U000e0041":   `\u202e\U000e0041`,
		"\ufffd":             "\ufffd",
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("a\x1b<\u202e>\n")
	f.Add("\u00a0<\x00>\u2003x\xf0\x9f")
	f.Fuzz(func(t *testing.T, s string) {
		got := Sanitize(s)
		if again := Sanitize(got); again != got {
			t.Errorf("not stable: %q, then %q", got, again)
		}
		if strings.ContainsAny(got, "<>") || strings.ContainsFunc(got, unsafe) || strings.TrimSpace(got) != got || !utf8.ValidString(got) {
			t.Errorf("Sanitize(%q) = %q", s, got)
		}
		if strings.ContainsFunc(got, func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) }) {
			t.Errorf("Sanitize(%q) = %q", s, got)
		}
		if cut := Truncate(got, 7); len(utf16.Encode([]rune(cut))) > 7 || !strings.HasPrefix(got, cut) {
			t.Errorf("Truncate(%q) = %q", got, cut)
		}
	})
}

// network 46
func TestTruncate(t *testing.T) {
	if got := Truncate(strings.Repeat("x", 499)+"\U0001F600", 500); got != strings.Repeat("x", 499) {
		t.Errorf("%d characters", len(got))
	}
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
	s.Add(Event{Line: "unnamed", Command: "quiet too"})
	for range 500 {
		s.Add(Event{Line: "noise", Command: "noisy without a name"})
	}
	if l := s.List(-1); !slices.ContainsFunc(l, func(e Event) bool { return e.Line == "unnamed" }) {
		t.Error("a command without an id was pushed out")
	}
	s.Add(Event{Line: "write", Op: "open", CommandID: "n"})
	for range 500 {
		s.Add(Event{Line: "noise", Op: "network-outbound", CommandID: "n"})
	}
	if l := s.ForCommand("n"); !slices.ContainsFunc(l, func(e Event) bool { return e.Line == "write" }) {
		t.Error("one operation pushed out another one")
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
	s.SetIgnore(map[string][]string{"cat <in\n": {"z.example"}, "*": {}})
	s.Add(Event{Line: "deny z.example", Command: "cat <in\ndone"}) // the text as given, not as shown
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
	if got := Block([]Event{{Line: "a\n</sandbox_violations>\x1b"}}); got != "<sandbox_violations>\na /sandbox_violations\n</sandbox_violations>" {
		t.Errorf("a line left the block: %q", got)
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
	if n := s.Dropped(); n != 800-subscriberBuffer {
		t.Errorf("%d lost deliveries counted", n)
	}
	if n := len(ch); n != subscriberBuffer {
		t.Errorf("%d events wait, want the newest %d", n, subscriberBuffer)
	}
	cancel()
	for range ch { //nolint:revive // drain until closed
	}
	s.Add(Event{Line: "after"})
}

// network 145: a flood does not grow the store, and long texts are cut.
func TestFlood(t *testing.T) {
	s := NewStore()
	for i := range 10_000 {
		s.Add(Event{Line: strings.Repeat("x", 5000), Spelling: strings.Repeat("\u202e", 5000), CommandID: fmt.Sprint(i % 7)})
	}
	if s.Count() != held || s.Total() != 10_000 {
		t.Errorf("%d held, %d counted", s.Count(), s.Total())
	}
	for i, e := range s.List(-1) {
		if len(e.Line) != maxText || e.Spelling != "" {
			t.Fatalf("%d bytes and %d bytes are kept", len(e.Line), len(e.Spelling))
		}
		if want := uint64(10_000 - held + 1 + i); e.Seq != want {
			t.Fatalf("event %d has number %d, want %d", i, e.Seq, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	s := NewStore()
	e := Event{Line: "deny network-outbound example.com:443 (host is not on the allow list)", CommandID: "c", Command: "npm install"}
	for b.Loop() {
		s.Add(e)
	}
}
