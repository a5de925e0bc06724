package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// CompileExtract compiles the expression of an "extract" key, which is written
// in JavaScript's dialect without flags. Constructs that only JavaScript has are
// refused by name, those that mean something else here are translated: an
// expression that silently matches less would leave the secret readable. The
// result has at least one capturing group.
func CompileExtract(expression string) (*regexp.Regexp, error) {
	t := &translator{in: expression}
	if err := t.translate(); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(t.out.String())
	if err != nil {
		return nil, fmt.Errorf("the regular expression does not compile: %w", err)
	}
	if re.NumSubexp() == 0 {
		return nil, errors.New("the regular expression needs a capturing group around the secret")
	}
	return re, nil
}

// Members of JavaScript's \s, its complement, and what "." leaves out (ECMA-262,
// CharacterClassEscape and Atom). The engine's own \s is ASCII only and its "."
// takes carriage returns.
const (
	spaces      = `\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
	noSpaces    = `\x{0}-\x{8}\x{E}-\x{1F}!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
	lineBreaks  = `\n\r\x{2028}\x{2029}`
	anyOneOfAll = `[\x{0}-\x{10FFFF}]`
)

type translator struct {
	in  string
	pos int
	out strings.Builder
}

func (t *translator) rest() string { return t.in[t.pos:] }

// emit writes the translation of the next n bytes.
func (t *translator) emit(n int, s string) error {
	t.pos += n
	t.out.WriteString(s)
	return nil
}

func (t *translator) translate() error {
	for t.pos < len(t.in) {
		var err error
		switch t.in[t.pos] {
		case '\\':
			_, err = t.escape(false)
		case '[':
			err = t.class()
		case '(':
			err = t.group()
		case '.':
			err = t.emit(1, "[^"+lineBreaks+"]")
		default:
			err = t.emit(1, t.in[t.pos:t.pos+1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unsupported(what, text string) error {
	return fmt.Errorf("the regular expression uses %s (%s), which is not supported", what, text)
}

// group checks what follows an opening parenthesis.
func (t *translator) group() error {
	for _, c := range []struct{ text, name string }{
		{"(?=", "a lookahead"}, {"(?!", "a negative lookahead"}, {"(?<=", "a lookbehind"}, {"(?<!", "a negative lookbehind"},
	} {
		if strings.HasPrefix(t.rest(), c.text) {
			return unsupported(c.name, c.text)
		}
	}
	for _, known := range []string{"(?:", "(?<", "(?P<", "(?i:", "(?i)"} {
		if strings.HasPrefix(t.rest(), known) {
			return t.emit(len(known), known)
		}
	}
	if strings.HasPrefix(t.rest(), "(?") {
		return unsupported("inline flags", t.rest()[:min(len(t.rest()), 4)])
	}
	return t.emit(1, "(")
}

// class translates a bracketed set. In JavaScript "[" is an ordinary member and
// the first "]" always closes.
func (t *translator) class() error {
	switch {
	case strings.HasPrefix(t.rest(), "[^]"):
		return t.emit(3, anyOneOfAll)
	case strings.HasPrefix(t.rest(), "[]"):
		return unsupported("a set that matches nothing", "[]")
	case strings.HasPrefix(t.rest(), "[^"):
		_ = t.emit(2, "[^")
	default:
		_ = t.emit(1, "[")
	}
	afterSet := false // a "-" beside a set is an ordinary member
	for t.pos < len(t.in) {
		c := t.in[t.pos]
		switch {
		case c == ']':
			return t.emit(1, "]")
		case c == '\\':
			set, err := t.escape(true)
			if err != nil {
				return err
			}
			afterSet = set
			continue
		case c == '[', c == '-' && (afterSet || startsSet(t.in[t.pos+1:])):
			_ = t.emit(1, `\`+string(c))
		default:
			_ = t.emit(1, t.in[t.pos:t.pos+1])
		}
		afterSet = false
	}
	return errors.New("the regular expression does not compile: a bracket is not closed")
}

func startsSet(s string) bool {
	return len(s) > 1 && s[0] == '\\' && strings.IndexByte("dDwWsS", s[1]) >= 0
}

// escape translates what follows a backslash. It reports whether that stands for
// more than one character.
func (t *translator) escape(inClass bool) (set bool, err error) {
	if len(t.rest()) < 2 {
		return false, errors.New("the regular expression does not compile: it ends in a backslash")
	}
	c := t.rest()[1]
	switch {
	case c == 's' || c == 'S':
		return true, t.emit(2, spaceSet(c, inClass))
	case strings.IndexByte("dDwW", c) >= 0:
		return true, t.emit(2, t.rest()[:2])
	case c == 'b' && inClass:
		return false, t.emit(2, `\x08`)
	case strings.IndexByte("tnvfr", c) >= 0, (c == 'b' || c == 'B') && !inClass:
		return false, t.emit(2, t.rest()[:2])
	case c >= '0' && c <= '9' || c == 'k':
		return false, t.backreference(c)
	case c == 'x' || c == 'u' || c == 'c':
		return false, t.codePoint(c)
	case c == 'p' || c == 'P':
		return false, unsupported("a Unicode property", t.rest()[:2])
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return false, unsupported("an escape that JavaScript does not have", t.rest()[:2])
	case c < 0x80 && c != '_':
		return false, t.emit(2, t.rest()[:2])
	}
	return false, t.emit(1, "") // any other character stands for itself
}

func spaceSet(c byte, inClass bool) string {
	set := spaces
	if c == 'S' {
		set = noSpaces
	}
	if inClass {
		return set
	}
	return "[" + set + "]"
}

// backreference refuses all escapes with digits but \0, which is the NUL byte.
func (t *translator) backreference(c byte) error {
	if c == '0' && (len(t.rest()) < 3 || t.rest()[2] < '0' || t.rest()[2] > '9') {
		return t.emit(2, `\x00`)
	}
	if c == '0' {
		return unsupported("an octal escape", t.rest()[:3])
	}
	return unsupported("a backreference", t.rest()[:2])
}

// codePoint translates \xHH, \uHHHH, pairs of the latter, and \cX.
func (t *translator) codePoint(c byte) error {
	s := t.rest()
	if c == 'c' {
		if len(s) > 2 && (s[2]|0x20) >= 'a' && (s[2]|0x20) <= 'z' {
			return t.emit(3, fmt.Sprintf(`\x%02x`, s[2]&0x1F))
		}
		return unsupported("an incomplete escape", `\c`)
	}
	size := map[byte]int{'x': 4, 'u': 6}[c]
	r, ok := hex(s, size)
	if !ok {
		return unsupported("an incomplete escape", s[:2])
	}
	if !utf16.IsSurrogate(r) {
		return t.emit(size, fmt.Sprintf(`\x{%x}`, r))
	}
	if second, ok := hex(s[size:], size); ok && s[size+1] == 'u' {
		if pair := utf16.DecodeRune(r, second); pair != '\uFFFD' {
			return t.emit(2*size, fmt.Sprintf(`\x{%x}`, pair))
		}
	}
	return unsupported("half a character", s[:size])
}

// hex reads the digits of an escape of this many bytes.
func hex(s string, size int) (rune, bool) {
	if len(s) < size || s[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:size], 16, 32)
	return rune(n), err == nil
}
