package violation

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Escape makes text safe for terminals and lines of logs without losing any of
// it: characters that [Sanitize] would take out, and bytes that are not UTF-8,
// become escapes such as \x1b or \u202e. Angle brackets stay.
func Escape(s string) string {
	clean := func(c rune, size int) bool { return !unsafe(c) && (c != utf8.RuneError || size > 1) }
	var b strings.Builder
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case clean(c, size):
			b.WriteString(s[i : i+size])
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		i += size
	}
	return b.String()
}
