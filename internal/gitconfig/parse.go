// Package gitconfig reads the configuration files of git, which may come from a
// hostile command, and tells which entries make git run programs.
package gitconfig

import (
	"bytes"
	"fmt"
	"strings"
)

// Entry is one setting of a configuration file.
type Entry struct {
	// Section and Name are in lower case, for git ignores theirs.
	Section, Subsection, Name string
	Value                     string
	// Bare marks a name without "=", which git takes for true.
	Bare bool
}

// Key is the entry as "git config" names it.
func (e Entry) Key() string {
	if e.Subsection == "" {
		return e.Section + "." + e.Name
	}
	return e.Section + "." + e.Subsection + "." + e.Name
}

// SyntaxError says where git stops reading a file.
type SyntaxError struct{ Line int }

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("reading a git configuration: line %d is not in its syntax", e.Line)
}

// Parse reads a configuration file as git does, see "Syntax" in git-config(1).
// With a [*SyntaxError] come the entries before the faulty line: git refuses
// such a file, other programs may not. A NUL byte in a subsection or a value is a
// mistake here only: to git it ends the whole name, or the value, so that
// [core "pager\0"] x = y means core.pager.
func Parse(data []byte) ([]Entry, error) {
	p := &parser{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), line: 1}
	for {
		c := p.next()
		switch {
		case p.end:
			return p.entries, nil
		case isSpace(c):
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[' && p.section():
		case isLetter(c) && p.variable(c):
		default:
			return p.entries, &SyntaxError{Line: p.line}
		}
	}
}

// parser follows git's own, byte for byte: what it takes for a value must be
// what git takes for it.
type parser struct {
	data    []byte
	line    int
	end     bool
	head    Entry // the section that entries belong to
	entries []Entry
}

// next returns the next byte; the end of the file looks like that of a line.
func (p *parser) next() byte {
	if len(p.data) == 0 {
		p.end = true
		return '\n'
	}
	c := p.data[0]
	p.data = p.data[1:]
	if c == '\r' && len(p.data) > 0 && p.data[0] == '\n' {
		c, p.data = '\n', p.data[1:]
	}
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *parser) skipLine() {
	for p.next() != '\n' {
	}
}

// section reads a header after its bracket. In [a.b] the subsection is b, in
// lower case as well.
func (p *parser) section() bool {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case p.end:
			return false
		case c == ']':
			p.head = sectionOf(name.String(), "", false)
			return true
		case isSpace(c):
			sub, ok := p.subsection(c)
			p.head = sectionOf(name.String(), sub, true)
			return ok
		case !isKey(c) && c != '.':
			return false
		}
		name.WriteByte(lower(c))
	}
}

func sectionOf(name, sub string, quoted bool) Entry {
	section, rest, dotted := strings.Cut(name, ".")
	switch {
	case dotted && quoted:
		sub = rest + "." + sub
	case dotted:
		sub = rest
	}
	return Entry{Section: section, Subsection: sub}
}

// subsection reads ` "name"]`.
func (p *parser) subsection(c byte) (string, bool) {
	for isSpace(c) {
		if c == '\n' {
			return "", false
		}
		c = p.next()
	}
	if c != '"' {
		return "", false
	}
	var name strings.Builder
	for {
		switch c = p.next(); c {
		case '\n', 0:
			return "", false
		case '"':
			return name.String(), p.next() == ']'
		case '\\':
			if c = p.next(); c == '\n' || c == 0 {
				return "", false
			}
		}
		name.WriteByte(c)
	}
}

// variable reads a name that begins with first, and its value.
func (p *parser) variable(first byte) bool {
	name := []byte{lower(first)}
	c := p.next()
	for ; isKey(c); c = p.next() {
		name = append(name, lower(c))
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	e := p.head
	e.Name, e.Bare = string(name), true
	if c != '\n' {
		if c != '=' {
			return false
		}
		var ok bool
		if e.Value, ok = p.value(); !ok {
			return false
		}
		e.Bare = false
	}
	p.entries = append(p.entries, e)
	return true
}

// value reads to the end of the line: quotes keep white space, comment signs
// end the value, a backslash at the end of a line joins the next one.
func (p *parser) value() (string, bool) {
	var b strings.Builder
	quoted, kept := false, 0
	for {
		c := p.next()
		switch {
		case c == 0:
			return "", false
		case c == '\n':
			return b.String()[:kept], !quoted
		case isSpace(c) && !quoted:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		case !quoted && (c == ';' || c == '#'):
			p.skipLine()
			return b.String()[:kept], true
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if !p.escaped(&b) {
				return "", false
			}
		default:
			b.WriteByte(c)
		}
		kept = b.Len()
	}
}

// escaped reads what follows a backslash.
func (p *parser) escaped(b *strings.Builder) bool {
	switch c := p.next(); c {
	case '\n':
	case 't':
		b.WriteByte('\t')
	case 'b':
		b.WriteByte('\b')
	case 'n':
		b.WriteByte('\n')
	case '\\', '"':
		b.WriteByte(c)
	default:
		return false
	}
	return true
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }
func isKey(c byte) bool    { return isLetter(c) || '0' <= c && c <= '9' || c == '-' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
