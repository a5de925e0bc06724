package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// The standard decoder matches keys ignoring case, takes null for anything,
// keeps the last of duplicate keys and mends invalid UTF-8. Each of these can
// turn a rule into another one, so the settings are read into a plain tree
// first.

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

// maxDepth bounds nesting; the settings need five levels.
const maxDepth = 32

// parseTree reads one JSON value with comments and trailing commas allowed.
func parseTree(data []byte) (*node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not valid UTF-8")
	}
	plain, err := hujson.Standardize(data)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	n, err := readNode(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not valid JSON: more than one value")
	}
	return n, nil
}

func readNode(dec *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case bool:
		return &node{kind: kindBool, truth: v}, nil
	case json.Number:
		return &node{kind: kindNumber, text: v.String()}, nil
	case string:
		return &node{kind: kindString, text: v}, nil
	case json.Delim:
		return readComposite(dec, v, depth)
	}
	return &node{kind: kindNull}, nil
}

func readComposite(dec *json.Decoder, open json.Delim, depth int) (*node, error) {
	n := &node{kind: kindArray}
	if open == '{' {
		n.kind = kindObject
	}
	seen := map[string]bool{}
	for dec.More() {
		if n.kind == kindObject {
			t, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ := t.(string)
			if seen[key] {
				return nil, fmt.Errorf("the key %q appears twice in one object", key)
			}
			seen[key] = true
			n.keys = append(n.keys, key)
		}
		v, err := readNode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, v)
	}
	_, err := dec.Token()
	return n, err
}
