package glob

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// inline is how many words of states fit into the stack: patterns of up to 255
// characters allocate nothing while matching.
const inline = 4

// rawByte is the character of a byte that belongs to no UTF-8 character, less
// the byte itself. Unicode ends before it.
const rawByte = utf8.MaxRune + 1

type kind uint8

const (
	char    kind = iota // one given character
	anyChar             // one character other than "/"
	oneOf               // one character of a set
	anyName             // a run of characters other than "/"
	anyPath             // a run of characters
	// anyDirs and inDirs together are "**/": the first is left freely, the
	// second stands in the middle of a directory's name and is left by "/" only.
	anyDirs
	inDirs
)

// state is one position in a pattern and what leads on from there.
type state struct {
	kind kind
	char rune
	set  []span
}

type span struct{ low, high rune }

func (s state) accepts(c rune) bool {
	switch s.kind {
	case char:
		return c == s.char
	case anyChar, anyName:
		return c != '/'
	case oneOf:
		for _, r := range s.set {
			if r.low <= c && c <= r.high {
				return true
			}
		}
		return false
	}
	return true
}

// decode reads the character at the start of s, which is not empty.
func decode(s string) (rune, int) {
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	c, n := utf8.DecodeRuneInString(s)
	if c == utf8.RuneError && n == 1 {
		return rawByte + rune(s[0]), 1
	}
	return c, n
}

func parse(text string) []state {
	var states []state
	for text != "" {
		var n int
		switch text[0] {
		case '*':
			states, n = parseStars(states, text)
		case '?':
			states, n = append(states, state{kind: anyChar}), 1
		case '[':
			if set, length := parseSet(text); length > 0 {
				states, n = append(states, state{kind: oneOf, set: set}), length
				break
			}
			states, n = append(states, state{char: '['}), 1
		default:
			var c rune
			c, n = decode(text)
			states = append(states, state{char: c})
		}
		text = text[n:]
	}
	return states
}

// parseStars reads a run of stars: the last two take a slash that follows; of
// what is left one is "*" and more are "**".
func parseStars(states []state, text string) ([]state, int) {
	n := len(text) - len(strings.TrimLeft(text, "*"))
	dirs := n >= 2 && n < len(text) && text[n] == '/'
	rest := n
	if dirs {
		rest -= 2
	}
	switch {
	case rest == 1:
		states = append(states, state{kind: anyName})
	case rest > 1:
		states = append(states, state{kind: anyPath})
	}
	if dirs {
		return append(states, state{kind: anyDirs}, state{kind: inDirs}), n + 1
	}
	return states, n
}

// parseSet reads a set in brackets. Length 0 means that the brackets are text:
// empty, not closed, or with a range that runs backwards.
func parseSet(text string) ([]span, int) {
	end := strings.IndexByte(text, ']')
	if end < 2 {
		return nil, 0
	}
	var members []rune
	for in := text[1:end]; in != ""; {
		c, n := decode(in)
		members = append(members, c)
		in = in[n:]
	}
	var set []span
	for i := 0; i < len(members); i++ {
		r := span{members[i], members[i]}
		if i+2 < len(members) && members[i+1] == '-' {
			r.high = members[i+2]
			i += 2
		}
		if r.low > r.high {
			return nil, 0
		}
		set = append(set, r)
	}
	return set, end + 1
}

func has(set []uint64, i int) bool { return set[i/64]&(1<<(i%64)) != 0 }

// add puts a state into a set, together with those that it leads to without a
// character.
func (p *Pattern) add(set []uint64, i int) {
	for !has(set, i) {
		set[i/64] |= 1 << (i % 64)
		if i == len(p.states) {
			return
		}
		switch p.states[i].kind {
		case anyName, anyPath:
			i++
		case anyDirs:
			i += 2
		default:
			return
		}
	}
}

func (p *Pattern) initial(set []uint64) []uint64 {
	set = p.cleared(set)
	p.add(set, 0)
	return set
}

func (p *Pattern) cleared(set []uint64) []uint64 {
	if cap(set) < p.words {
		return make([]uint64, p.words)
	}
	set = set[:p.words]
	clear(set)
	return set
}

// run follows text from a place and returns the states it ends in. The two
// slices are room to work in.
func (p *Pattern) run(at Place, text string, now, next []uint64) []uint64 {
	now, next = p.cleared(now), p.cleared(next)
	for i := 0; i+8 <= len(at.bits); i += 8 {
		now[i/8] = binary.NativeEndian.Uint64([]byte(at.bits[i : i+8]))
	}
	for text != "" {
		c, n := decode(text)
		text = text[n:]
		clear(next)
		alive := false
		for w, word := range now {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				alive = p.step(next, i, c) || alive
			}
		}
		now, next = next, now
		if !alive {
			break
		}
	}
	return now
}

// step adds to set what state i leads to by a character.
func (p *Pattern) step(set []uint64, i int, c rune) bool {
	if i == len(p.states) || !p.states[i].accepts(c) {
		return false
	}
	switch p.states[i].kind {
	case anyName, anyPath:
		p.add(set, i)
	case anyDirs:
		if c == '/' {
			p.add(set, i)
		} else {
			p.add(set, i+1)
		}
	case inDirs:
		if c == '/' {
			p.add(set, i-1)
		} else {
			p.add(set, i)
		}
	default:
		p.add(set, i+1)
	}
	return true
}

func (p *Pattern) freeze(set []uint64) Place {
	b := make([]byte, 0, 8*len(set))
	for _, w := range set {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return Place{bits: string(b)}
}
