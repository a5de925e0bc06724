// Package glob implements the pattern language of path entries: "?", "*", "**",
// "**/" and sets in brackets. There are no escapes, no braces and no negation;
// brackets that spell no set are plain text, so every text is a pattern.
package glob

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// HasMeta reports whether s holds a character that can make it a pattern.
func HasMeta(s string) bool { return strings.ContainsAny(s, "*?[]") }

// Pattern is a compiled pattern for slash-separated paths. Matching takes time
// linear in the path, whatever the pattern.
type Pattern struct {
	text     string
	whole    *regexp.Regexp
	segments []segment
	// base matches the last component alone, for patterns that say nothing else.
	base *regexp.Regexp
	name string // set instead of base when it is plain text
}

// segment is one component of a pattern, up to the first that can span several.
type segment struct {
	match *regexp.Regexp
	deep  bool
}

// Compile never fails: whatever spells no token is plain text. Settings are
// valid UTF-8; other bytes are taken for the replacement character, which also
// stands for such bytes in a path.
func Compile(text string) *Pattern {
	text = strings.ToValidUTF8(text, "\uFFFD")
	p := &Pattern{text: text, whole: compile(text)}
	spans := setSpansSlash(text)
	for s := range strings.SplitSeq(text, "/") {
		// A set that holds a slash makes splitting at slashes meaningless.
		deep := strings.Contains(s, "**") || spans
		p.segments = append(p.segments, segment{match: compile(s), deep: deep})
		if deep {
			break
		}
	}
	if tail, ok := strings.CutPrefix(text, "**/"); ok && !strings.Contains(tail, "/") && !strings.Contains(tail, "**") {
		if HasMeta(tail) {
			p.base = compile(tail)
		} else {
			p.name = tail
		}
	}
	return p
}

// String returns the pattern as written.
func (p *Pattern) String() string { return p.text }

// Match reports whether the whole path matches.
func (p *Pattern) Match(path string) bool {
	if p.name != "" || p.base != nil {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if p.name != "" {
			return last == p.name
		}
		return p.base.MatchString(last)
	}
	return p.whole.MatchString(path)
}

// MayMatchBelow reports whether something beneath the directory dir could
// match. It may say yes too often, never no wrongly.
func (p *Pattern) MayMatchBelow(dir string) bool {
	if dir == "" {
		return true
	}
	i := 0
	for c := range strings.SplitSeq(dir, "/") {
		if i >= len(p.segments) {
			return false
		}
		if p.segments[i].deep {
			return true
		}
		if !p.segments[i].match.MatchString(c) {
			return false
		}
		i++
	}
	return i < len(p.segments)
}

// Deep reports whether the pattern matches at any depth from its start.
func (p *Pattern) Deep() bool { return p.segments[0].deep }

// setSpansSlash is a cautious test for sets that can match a separator.
func setSpansSlash(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '[' {
			continue
		}
		if set, n := parseSet(text[i:]); n > 0 && (set.MatchString("/") || strings.Contains(text[i:i+n], "/")) {
			return true
		}
	}
	return false
}

func compile(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(text); {
		n := writeToken(&b, text[i:])
		i += n
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// writeToken translates the token at the start of text and returns its length.
func writeToken(b *strings.Builder, text string) int {
	switch text[0] {
	case '*':
		n := len(text) - len(strings.TrimLeft(text, "*"))
		return writeStars(b, n, n < len(text) && text[n] == '/')
	case '?':
		b.WriteString(`[^/]`)
		return 1
	case '[':
		if set, n := parseSet(text); n > 0 {
			b.WriteString(set.String())
			return n
		}
	}
	_, n := utf8.DecodeRuneInString(text)
	b.WriteString(regexp.QuoteMeta(text[:n]))
	return n
}

// writeStars translates a run of n stars: the last two take a slash that
// follows; of what is left one is "*" and more are "**".
func writeStars(b *strings.Builder, n int, slash bool) int {
	used := n
	rest := n
	if slash && n >= 2 {
		rest, used = n-2, n+1
	}
	switch {
	case rest == 1:
		b.WriteString(`[^/]*`)
	case rest > 1:
		b.WriteString(`.*`)
	}
	if used > n {
		b.WriteString(`(?:.*/)?`)
	}
	return used
}

// parseSet reads a set in brackets. Length 0 means that the brackets are text:
// empty, not closed, or with a range that runs backwards.
func parseSet(text string) (*regexp.Regexp, int) {
	end := strings.IndexByte(text, ']')
	if end < 2 {
		return nil, 0
	}
	members := []rune(text[1:end])
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; i < len(members); i++ {
		low, high := members[i], members[i]
		if i+2 < len(members) && members[i+1] == '-' {
			high = members[i+2]
			i += 2
		}
		if low > high {
			return nil, 0
		}
		b.WriteString(classRune(low))
		b.WriteByte('-')
		b.WriteString(classRune(high))
	}
	b.WriteByte(']')
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, 0
	}
	return re, end + 1
}

// classRune writes a rune so that it means nothing special inside a class.
func classRune(r rune) string {
	const hex = "0123456789abcdef"
	out := []byte(`\x{`)
	started := false
	for shift := 20; shift >= 0; shift -= 4 {
		d := r >> shift & 0xf
		if d != 0 || started || shift == 0 {
			out = append(out, hex[d])
			started = true
		}
	}
	return string(append(out, '}'))
}
