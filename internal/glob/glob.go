// Package glob implements the pattern language of path entries: "?", "*", "**",
// "**/" and sets in brackets. There are no escapes, no braces and no negation;
// brackets that spell no set are plain text, so every text is a pattern.
//
// A character is a UTF-8 character; a byte that belongs to none is a character
// of its own, so a pattern can name every file.
package glob

import "strings"

const meta = "*?[]"

// HasMeta reports whether s holds a character that can make it a pattern.
func HasMeta(s string) bool { return strings.ContainsAny(s, meta) }

// Split separates the literal directory in front of the first component that
// holds a pattern character from the rest. For "/a/b*/c" that is "/a/" and
// "b*/c"; without a slash in front of the pattern the directory is empty.
func Split(text string) (dir, pattern string) {
	first := strings.IndexAny(text, meta)
	if first < 0 {
		first = len(text)
	}
	cut := strings.LastIndexByte(text[:first], '/') + 1
	return text[:cut], text[cut:]
}

// Pattern is a compiled pattern for slash-separated paths. It is immutable.
// Matching looks at each character of a path once, whatever the pattern: the
// pattern is an automaton that is in several states at a time.
type Pattern struct {
	text   string
	states []state
	words  int // of a bit set that holds every state and the accepting one
	start  Place
	// tail is the rest of a pattern that begins with "**/" and says nothing
	// else about directories: then only the last component counts.
	tail *tail
}

// tail is a pattern for one component.
type tail struct {
	name    string // the whole name, or
	suffix  string // what follows a leading "*", or
	pattern *Pattern
}

// Compile never fails: whatever spells no token is plain text.
func Compile(text string) *Pattern {
	p := compile(text)
	if rest, ok := strings.CutPrefix(text, "**/"); ok {
		p.tail = compileTail(rest)
	}
	return p
}

func compile(text string) *Pattern {
	p := &Pattern{text: text, states: parse(text)}
	p.words = len(p.states)/64 + 1
	p.start = p.freeze(p.initial(nil))
	return p
}

func compileTail(rest string) *tail {
	if rest == "" || strings.Contains(rest, "/") {
		return nil
	}
	switch star := strings.TrimPrefix(rest, "*"); {
	case !HasMeta(rest):
		return &tail{name: rest}
	case !HasMeta(star) && star != rest:
		return &tail{suffix: star}
	}
	p := compile(rest)
	for _, s := range p.states {
		if s.accepts('/') {
			return nil // can span directories
		}
	}
	return &tail{pattern: p}
}

func (t *tail) match(name string) bool {
	switch {
	case t.name != "":
		return t.name == name
	case t.pattern != nil:
		return t.pattern.Match(name)
	}
	return strings.HasSuffix(name, t.suffix)
}

// String returns the pattern as written.
func (p *Pattern) String() string { return p.text }

// Match reports whether the whole path matches.
func (p *Pattern) Match(path string) bool {
	if p.tail != nil {
		return p.tail.match(path[strings.LastIndexByte(path, '/')+1:])
	}
	return p.MatchIn(p.Start(), path)
}

// MayMatchBelow reports whether something beneath the directory dir could
// match; "" is the directory in which the pattern starts.
func (p *Pattern) MayMatchBelow(dir string) bool {
	if dir == "" {
		return true
	}
	_, more := p.Enter(p.Start(), dir)
	return more
}

// Place is how far a pattern has come at a directory. It can be compared: from
// equal places the same names match.
type Place struct{ bits string }

// Start is the place of the directory in which the pattern starts.
func (p *Pattern) Start() Place { return p.start }

// MatchIn reports whether name, found in the directory at the place, matches.
func (p *Pattern) MatchIn(at Place, name string) bool {
	if p.tail != nil {
		return p.tail.match(name)
	}
	set := p.run(at, name, make([]uint64, 0, inline), make([]uint64, 0, inline))
	return has(set, len(p.states))
}

// Enter returns the place of the directory called name in the directory at the
// place, and whether anything beneath it can match.
func (p *Pattern) Enter(at Place, name string) (Place, bool) {
	if p.tail != nil {
		return at, true
	}
	set := p.run(at, name+"/", make([]uint64, 0, inline), make([]uint64, 0, inline))
	end := len(p.states)
	set[end/64] &^= 1 << (end % 64)
	for _, w := range set {
		if w != 0 {
			return p.freeze(set), true
		}
	}
	return Place{}, false
}
