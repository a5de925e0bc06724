package violation

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// Sanitize makes text from inside a sandbox safe for terminals, logs and tagged
// blocks: each run of control, zero-width and direction characters becomes one
// space, angle brackets go, the ends are trimmed. Bytes that are not UTF-8
// become the replacement character.
func Sanitize(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for _, c := range s {
		switch {
		case c == '<' || c == '>':
		case unsafe(c):
			gap = true
		default:
			if gap {
				b.WriteByte(' ')
				gap = false
			}
			b.WriteRune(c)
		}
	}
	return strings.TrimSpace(b.String())
}

// unsafe finds the characters that control a terminal, break lines, have no
// width or turn the direction of text around: C0, C1, soft hyphen, the Arabic
// letter mark, the formatting characters of the blocks U+2000 and U+2060, the
// byte order mark, annotation marks, tags, and those of shorthand and music. Others
// that are not to be seen, variation selectors and fillers, can hide text, too.
func unsafe(c rune) bool {
	switch {
	case c < 0x20, c >= 0x7f && c <= 0x9f, c == 0xad, c == 0x61c, c == 0x180e, c >= 0x200b && c <= 0x200f, c >= 0x2028 && c <= 0x202e,
		c >= 0x2060 && c <= 0x206f, c == 0xfeff, c >= 0xfff9 && c <= 0xfffb, c >= 0x1bca0 && c <= 0x1bca3, c >= 0x1d173 && c <= 0x1d17a,
		c >= 0xe0000 && c <= 0xe007f:
		return true
	}
	return c > 0x7f && unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Truncate cuts s to at most max UTF-16 code units without splitting a character.
func Truncate(s string, max int) string {
	units := 0
	for i, c := range s {
		n := utf16.RuneLen(c)
		if n < 1 {
			n = 1
		}
		if units += n; units > max {
			return strings.TrimSpace(s[:i])
		}
	}
	return s
}
