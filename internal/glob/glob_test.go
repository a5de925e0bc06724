package glob

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.pem", "a.pem", true}, {"*.pem", "x/a.pem", false}, {"*", ".hidden", true}, {"a?c", "abc", true}, {"a?c", "a/c", false},
		{"keys/*.pem", "keys/sub/x.pem", false}, {"keys/**/*.pem", "keys/sub/x.pem", true}, {"keys/**/*.pem", "keys/x.pem", true}, // linux 65
		{"a/**/b", "a/b", true}, {"a/**/b", "a/x/b", true}, {"a/**/b", "a/x/y/b", true}, {"a/**/b", "ab", false}, // config 59
		{"file[0-9].txt", "file3.txt", true}, {"file[0-9].txt", "file10.txt", false}, {"[!a]", "!", true}, {"[!a]", "a", true}, {"[!a]", "b", false}, // config 58
		{"[user-id]/x", "[user-id]/x", true}, {"[user-id]/x", "u/x", false}, {"[a-c]x", "bx", true}, {"[*]", "*", true}, {"[*]", "a", false}, // linux 73
		{"[-a]", "-", true}, {"[a-]", "-", true}, {"[]", "[]", true}, {"[", "[", true}, {"a]", "a]", true}, {"[]a]", "[]a]", true},
		{"***/x", "abc/x", true}, {"***/x", "x", true}, {"a**b", "a/x/b", true}, {"**x", "a/b/x", true}, {"**/.env", ".env", true}, {"**/.env", "a/b/.env", true}, // linux 74
		{"**/.env", "a/my.env", false}, {"[.-0]x", "/x", true}, {"a\nb*", "a\nbc", true}, {"b[2024-01-15]", "b[2024-01-15]", true}, {"**", "a/b", true},
		{"**/*.key", "a/b.key", true}, {"**/*.key", "b.keys", false}, {"**/k?y", "a/key", true}, {"**/k?y", "k/y", false}, {"**/k[.-0]y", "k/y", true},
		{"**", "", true}, {"**/", "a/", true}, {"**/", "a", false}, {"x**/y", "xa/y", true}, {"****/y", "xa/y", true}, {"****/y", "xay", true}, // config 57, 58
		{"?", "é", true}, {"?", "\xff", true}, {"??", "é", false}, {"\xff*", "\xffa", true}, {"\xff", "\xfe", false}, {"\xff", "\ufffd", false}, {"[\xff]", "\xff", true}, {"[é-ü]", "ö", true},
	} {
		if got := Compile(c.pattern).Match(c.path); got != c.want {
			t.Errorf("%q against %q = %v", c.pattern, c.path, got)
		}
	}
}

func TestMayMatchBelow(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"a/*/c", "a", true}, {"a/*/c", "b", false}, {"a/*/c", "a/x", true}, {"a/*/c", "a/x/c", false}, {"**/x", "any/where", true}, {"a/**/x", "b", false}, {"a/**/x", "a/q/r", true}, {"*.pem", "d", false}, {"*.pem", "", true},
	} {
		if got := Compile(c.pattern).MayMatchBelow(c.dir); got != c.want {
			t.Errorf("%q below %q = %v", c.pattern, c.dir, got)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, dir, pattern string }{
		{"/a/b*/c", "/a/", "b*/c"}, {"*.pem", "", "*.pem"}, {"/**/x", "/", "**/x"}, {"a/b", "a/", "b"}, {"/[x]", "/", "[x]"},
	} {
		if dir, pattern := Split(c.text); dir != c.dir || pattern != c.pattern {
			t.Errorf("%q: %q %q", c.text, dir, pattern)
		}
	}
}

// reference is the language written down as directly as possible: it tries
// every way to cut the text.
func reference(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	stars := len(pattern) - len(strings.TrimLeft(pattern, "*"))
	after := pattern[stars:]
	switch {
	case stars == 2 && strings.HasPrefix(after, "/"):
		return reference(after[1:], text) || anyTail(text, func(cut int) bool { return cut > 0 && text[cut-1] == '/' && reference(after[1:], text[cut:]) })
	case stars > 2 && strings.HasPrefix(after, "/"):
		return anyTail(text, func(cut int) bool {
			return (stars > 3 || !strings.Contains(text[:cut], "/")) && reference("**"+after, text[cut:])
		})
	case stars > 0:
		return anyTail(text, func(cut int) bool {
			return (stars > 1 || !strings.Contains(text[:cut], "/")) && reference(after, text[cut:])
		})
	case text == "":
		return false
	}
	c, n := decode(text)
	if pattern[0] == '?' {
		return c != '/' && reference(pattern[1:], text[n:])
	}
	if members, length := parseSet(pattern); pattern[0] == '[' && length > 0 {
		for _, m := range members {
			if m.low <= c && c <= m.high {
				return reference(pattern[length:], text[n:])
			}
		}
		return false
	}
	want, width := decode(pattern)
	return c == want && reference(pattern[width:], text[n:])
}

func anyTail(text string, ok func(cut int) bool) bool {
	for cut := 0; cut <= len(text); cut++ {
		if ok(cut) {
			return true
		}
	}
	return false
}

var (
	patterns = rapid.SliceOfN(rapid.SampledFrom([]string{"*", "**", "**/", "?", "/", "a", "b", "é", ".", "[ab]", "[b-a]", "[.-0]", "[", "]", "\xff", "***"}), 0, 8)
	names    = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "é", ".", "\xff", "[", "b-a", "]"}), 1, 3)
)

func drawPath(t *rapid.T) []string {
	var parts []string
	for range rapid.IntRange(1, 4).Draw(t, "depth") {
		parts = append(parts, strings.Join(names.Draw(t, "name"), ""))
	}
	return parts
}

func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, path := strings.Join(patterns.Draw(t, "pattern"), ""), strings.Join(drawPath(t), "/")
		if got, want := Compile(text).Match(path), reference(text, path); got != want {
			t.Errorf("%q against %q: %v, the language says %v", text, path, got, want)
		}
	})
}

// Walking down directory by directory gives the answer of the whole path, and
// never stops above a match.
func TestStepsAgreeWithWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, parts := Compile(strings.Join(patterns.Draw(t, "pattern"), "")), drawPath(t)
		at, more := p.Start(), true
		for i, name := range parts {
			whole := strings.Join(parts[:i+1], "/")
			if got, want := more && p.MatchIn(at, name), p.Match(whole); got != want {
				t.Fatalf("%q in steps against %q: %v, as a whole %v", p, whole, got, want)
			}
			at, more = p.Enter(at, name)
			if more != p.MayMatchBelow(whole) {
				t.Fatalf("%q below %q: steps say %v", p, whole, more)
			}
			if !more {
				break
			}
		}
	})
}

func TestHostilePatternIsLinear(t *testing.T) {
	p := Compile(strings.Repeat("*a**/", 200) + "b")
	start := time.Now()
	if p.Match(strings.Repeat("a", 4000)) {
		t.Error("matched")
	}
	if d := time.Since(start); d > time.Minute { // others take for ever
		t.Errorf("took %s", d)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/b*", "a/x/bc")
	f.Add("[a-c]/[.-0]x", "b/1x")
	f.Add("***/[!x]*", "q/x")
	f.Add("**/[\xff-\xff]", "a/\xff")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 24 || len(path) > 24 {
			return
		}
		p := Compile(pattern)
		matched := p.Match(path)
		if matched != reference(pattern, path) {
			t.Errorf("%q against %q: %v", pattern, path, matched)
		}
		for i := range len(path) {
			if matched && path[i] == '/' && i+1 < len(path) && !p.MayMatchBelow(path[:i]) {
				t.Errorf("%q matches %q but is not looked for below %q", pattern, path, path[:i])
			}
		}
	})
}

func BenchmarkMatchIn(b *testing.B) {
	for _, text := range []string{"**/.env", "**/*.key", "**/k?y*", "keys/**/*.pem"} {
		b.Run(text, func(b *testing.B) {
			p := Compile(text)
			at := p.Start()
			for b.Loop() {
				if p.MatchIn(at, "component-of-a-path.go") {
					b.Fatal("matched")
				}
			}
		})
	}
}
