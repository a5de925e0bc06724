package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// The standard decoder matches keys ignoring case, takes null for anything,
// keeps the last of duplicate keys and mends text that is not Unicode. Each of
// these can turn a rule into another one, so the settings are read into a plain
// tree first.

type nodeKind uint8

const (
	kindNull nodeKind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

func (k nodeKind) String() string {
	return [...]string{"null", "true or false", "a number", "a text", "a list", "an object"}[k]
}

// node is one JSON value.
type node struct {
	kind   nodeKind
	truth  bool
	text   string // of strings and numbers
	keys   []string
	values []*node // of arrays and objects
}

// treeReader builds nodes and collects what is wrong with them.
type treeReader struct{ issues []Issue }

// parseTree reads one JSON value with comments and trailing commas allowed. The
// node is nil when the text is no JSON at all.
func parseTree(data []byte) (*node, []Issue) {
	v, err := parseSyntax(data)
	if err != nil {
		return nil, []Issue{{Path: "(root)", Code: "format", Message: err.Error()}}
	}
	r := &treeReader{}
	return r.node("", v.Value), r.issues
}

func parseSyntax(data []byte) (hujson.Value, error) {
	if !utf8.Valid(data) {
		return hujson.Value{}, errors.New("not valid UTF-8")
	}
	if err := checkSize(data); err != nil {
		return hujson.Value{}, err
	}
	// A comment on the last line need not end in a line break, but the parser
	// wants one.
	v, err := hujson.Parse(append(bytes.Clone(data), '\n'))
	if err != nil {
		return v, errors.New("not valid JSON: " + excerpt(atEnd(strings.TrimPrefix(err.Error(), "hujson: "), data)))
	}
	return v, nil
}

// atEnd moves an error in the line that was only added to the end of the text.
func atEnd(message string, data []byte) string {
	what, ok := strings.CutPrefix(message, fmt.Sprintf("line %d, column 1: ", bytes.Count(data, []byte("\n"))+2))
	if !ok {
		return message
	}
	text := bytes.TrimRight(data, " \t\r\n")
	line := bytes.Count(text, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d: %s", line, len(text)-bytes.LastIndexByte(text, '\n'), what)
}

// excerpt makes text of the file fit for a message.
func excerpt(s string) string {
	const longest = 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

func (r *treeReader) add(at, code, message string) {
	r.issues = append(r.issues, Issue{Path: label(at), Code: code, Message: message})
}

func (r *treeReader) node(at string, v hujson.ValueTrimmed) *node {
	switch v := v.(type) {
	case *hujson.Object:
		return r.object(at, v)
	case *hujson.Array:
		n := &node{kind: kindArray, values: make([]*node, len(v.Elements))}
		for i, e := range v.Elements {
			n.values[i] = r.node(join(at, strconv.Itoa(i)), e.Value)
		}
		return n
	case hujson.Literal:
		return r.literal(at, v)
	}
	return &node{kind: kindNull}
}

// object keeps the first of duplicate keys, for the messages about the rest.
func (r *treeReader) object(at string, o *hujson.Object) *node {
	n := &node{kind: kindObject}
	seen := make(map[string]bool, len(o.Members))
	for _, m := range o.Members {
		name, _ := m.Name.Value.(hujson.Literal)
		key := r.literal(at, name).text
		where := join(at, key)
		if seen[key] {
			r.add(where, "duplicate", "is given more than once in one object")
			continue
		}
		seen[key] = true
		n.keys = append(n.keys, key)
		n.values = append(n.values, r.node(where, m.Value.Value))
	}
	return n
}

func (r *treeReader) literal(at string, l hujson.Literal) *node {
	switch l.Kind() {
	case '"':
		if loneSurrogate(l) {
			r.add(at, "format", `holds an escape for half a character (\ud800 to \udfff), which stands for no text`)
		}
		return &node{kind: kindString, text: l.String()}
	case 't', 'f':
		return &node{kind: kindBool, truth: l.Bool()}
	case '0':
		return &node{kind: kindNumber, text: l.String()}
	}
	return &node{kind: kindNull}
}

// loneSurrogate finds \u escapes that are one half of a pair without the other.
// Decoders replace them, which makes a rule for another name.
func loneSurrogate(l []byte) bool {
	for i := 0; i < len(l); i++ {
		if l[i] != '\\' {
			continue
		}
		i++
		first := codeUnit(l[i:])
		if first < 0xD800 || first > 0xDFFF {
			continue
		}
		i += len("uXXXX")
		if first > 0xDBFF || i >= len(l) || l[i] != '\\' {
			return true
		}
		if second := codeUnit(l[i+1:]); second < 0xDC00 || second > 0xDFFF {
			return true
		}
		i += len("uXXXX")
	}
	return false
}

// codeUnit reads uXXXX; it returns 0 for any other escape.
func codeUnit(l []byte) uint64 {
	if len(l) < 5 || l[0] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(l[1:5]), 16, 16)
	if err != nil {
		return 0
	}
	return n
}

const (
	maxDepth  = 32      // the settings need five levels
	maxValues = 1 << 20 // ten thousand rules need ten thousand
)

// checkSize bounds what the recursive parser is given: its stack grows with the
// nesting and its memory with the number of values.
func checkSize(data []byte) error {
	depth, values := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += skipString(data[i:])
		case '/':
			i += skipComment(data[i:])
		case '[', '{':
			depth++
			values++
		case ']', '}':
			depth--
		case ',':
			values++
		}
		if depth > maxDepth {
			return fmt.Errorf("nested more than %d levels deep", maxDepth)
		}
		if values > maxValues {
			return fmt.Errorf("more than %d values", maxValues)
		}
	}
	return nil
}

// skipString returns how far the closing quote is from the opening one.
func skipString(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// skipComment returns how far the last byte of a comment is from its first.
func skipComment(b []byte) int {
	for _, c := range []struct{ start, end string }{{"//", "\n"}, {"/*", "*/"}} {
		if !bytes.HasPrefix(b, []byte(c.start)) {
			continue
		}
		if n := bytes.Index(b[len(c.start):], []byte(c.end)); n >= 0 {
			return len(c.start) + n + len(c.end) - 1
		}
		return len(b)
	}
	return 0
}
