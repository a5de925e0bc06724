package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Expressions must match here what they match in JavaScript.
func TestCompileExtract(t *testing.T) {
	for _, c := range []struct{ expression, text, want string }{
		{`t=(\S+)`, "a t=secret b", "secret"}, // config 72
		{`token=(.+)`, "token=abc\r\nx", "abc"},
		{`token=(.+)`, "token=abc\u2028x", "abc"},
		{`k=(\S+)`, "k=abc\u00a0x", "abc"},
		{`k\s+=\s([^\s]+)`, "k\u3000\ufeff=\vabc\u2029", "abc"},
		{`k=([^\S]+)x`, "k=\u00a0\vx", "\u00a0\v"},
		{`k=([\s\S]+)`, "k=a\nb\u00a0c", "a\nb\u00a0c"},
		{`k=([^]+)`, "k=a\nb", "a\nb"},
		{`\(?=(\w+)`, "(=abc", "abc"},
		{`[(?=](\w+)`, "=abc", "abc"},
		{`\\(?:1)(\d)`, `\12`, "2"},
		{`(?<name>\d+)`, "a12", "12"},
		{`(?i:KEY)=(\d+)`, "key=1", "1"},
		{`k=([\w-.]+)`, "k=a-b.c!", "a-b.c"},
		{`k=([\s-a]+)`, "k= -a\u00a0b", " -a\u00a0"},
		{`k=([a-\d]+)`, "k=a-7b", "a-7"},
		{`k=([[x]+)`, "k=[x]", "[x"},
		{`k=([[:a]+)]`, "k=[:a]", "[:a"},
		{`k=([\b]+)`, "k=\b\b", "\b\b"},
		{`\u0041\x42(\cA)`, "AB\x01", "\x01"},
		{`(\ud83d\ude00)`, "a\U0001F600", "\U0001F600"},
		{`([\u00e0-\u00ff]+)`, "aéü", "éü"},
		{`\/(\-)\_\é`, "/-_é", "-"},
		{`a\0(b)`, "a\x00b", "b"},
		{`x(y{2})}]`, "xyy}]", "yy"},
		{`^(a)$`, "a", "a"},
		{`(a)$`, "a\n", ""},
		{`^(b)`, "a\nb", ""},
	} {
		re, err := CompileExtract(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		got := ""
		if m := re.FindStringSubmatch(c.text); m != nil {
			got = m[1]
		}
		if got != c.want {
			t.Errorf("%s finds %q in %q, want %q", c.expression, got, c.text, c.want)
		}
	}
}

// What cannot be translated is refused by name.
func TestCompileExtractRefuses(t *testing.T) {
	for expression, want := range map[string]string{
		`abc`: "capturing group", `(?:x)`: "capturing group", ``: "capturing group", `\(x\)`: "capturing group", `[(x)]`: "capturing group", // config 72
		`a(`: "does not compile", `(a`: "does not compile", `(a\`: "backslash", `([a`: "bracket is not closed", `(a{5000})`: "does not compile", // config 72
		`(a)(?=b)`: "a lookahead ((?=)", `(a)(?!b)`: "a negative lookahead", `(?<=a)(b)`: "a lookbehind", `(?<!a)(b)`: "a negative lookbehind",
		`(a)\1`: `a backreference (\1)`, `(a)\\\1`: "a backreference", `(?<n>a)\k<n>`: `a backreference (\k)`, `(a)\01`: "an octal escape", `([\1])`: "a backreference",
		`(\p{L})`: `a Unicode property (\p)`, `\A(x)`: `(\A)`, `(x)\z`: `(\z)`, `\Q(\E`: `(\Q)`, `(\a)`: `(\a)`, `([\B])`: `(\B)`, `(\C)`: `(\C)`,
		`(?s)(.)`: "inline flags", `(?m:^(a))`: "inline flags", `(?U)(a)`: "inline flags", `(?`: "inline flags",
		`([])`: "a set that matches nothing", `(\u{41})`: "an incomplete escape", `(\u12)`: "an incomplete escape", `(\xg0)`: "an incomplete escape", `(\c1)`: "an incomplete escape",
		`(\ud83d)`: "half a character", `(\ude00\ud83d)`: "half a character", `(\ud83d\x41)`: "half a character", `([z-a])`: "does not compile",
	} {
		_, err := CompileExtract(expression)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", expression, err, want)
		}
	}
}

// The two sets divide all characters between them.
func TestSpaceSets(t *testing.T) {
	space, other := regexp.MustCompile("^["+spaces+"]$"), regexp.MustCompile("^["+noSpaces+"]$")
	// ECMA-262, WhiteSpace and LineTerminator.
	want := []rune("\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff")
	for r := rune(0); r <= 0x10FFFF; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		in, out := space.MatchString(string(r)), other.MatchString(string(r))
		if in == out || in != slices.Contains(want, r) {
			t.Fatalf("U+%04X: space %v, not space %v", r, in, out)
		}
	}
}

func FuzzCompileExtract(f *testing.F) {
	for _, s := range []string{`t=(\S+)`, `([\s-a]|\u0041\ud83d\ude00)`, `(?<n>[^]\cA[[])`, `([\w-.]{2,3}?)$`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if re, err := CompileExtract(s); err == nil && re.NumSubexp() == 0 {
			t.Errorf("%q has no group", s)
		}
	})
}
