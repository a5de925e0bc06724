package config

import (
	"encoding/json"
	"errors"
)

// PathEntry is one element of a path list. Written as a text it may be a
// pattern; written as {"path": P, "literal": true} it is a name and nothing else.
type PathEntry struct {
	Path    string
	Literal bool
}

// MarshalJSON writes the entry in the form it was read in.
func (e PathEntry) MarshalJSON() ([]byte, error) {
	if !e.Literal {
		return json.Marshal(e.Path)
	}
	return json.Marshal(markedEntry{Path: e.Path, Literal: true})
}

// UnmarshalJSON reads either form.
func (e *PathEntry) UnmarshalJSON(data []byte) error {
	n, issues := parseTree(data)
	d := &decoder{issues: issues}
	if n != nil {
		d.entry("entry", n, e)
	}
	if len(d.issues) > 0 {
		return errors.New(d.issues[0].String())
	}
	return nil
}

type markedEntry struct {
	Path    string `json:"path"`
	Literal bool   `json:"literal"`
}

// entry decodes a path entry. An object without the mark is refused: whether it
// was meant as a name or a pattern cannot be known.
func (d *decoder) entry(at string, n *node, e *PathEntry) {
	switch n.kind {
	case kindString:
		e.Path = n.text
	case kindObject:
		d.marked(at, n, e)
	default:
		d.add(at, "type", `must be a text or {"path": "...", "literal": true}`)
		return
	}
	if n.kind == kindString && e.Path == "" {
		d.add(at, "nonempty", "must not be empty")
	}
}

func (d *decoder) marked(at string, n *node, e *PathEntry) {
	ok := len(n.keys) == 2
	for i, k := range n.keys {
		v := n.values[i]
		switch k {
		case "path":
			ok = ok && v.kind == kindString && v.text != ""
			e.Path = v.text
		case "literal":
			ok = ok && v.kind == kindBool && v.truth
			e.Literal = true
		default:
			ok = false
		}
	}
	if !ok {
		d.add(at, "format", `must have exactly the keys "path" (a text that is not empty) and "literal" (true)`)
	}
}
