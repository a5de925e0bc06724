package config

import (
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decoder moves a tree into the typed settings and collects what is wrong.
type decoder struct {
	issues  []Issue
	unknown []UnknownKey
}

func (d *decoder) add(at, code, message string) {
	d.issues = append(d.issues, Issue{Path: at, Code: code, Message: message})
}

// join appends a key to a dotted path. Keys come from the file and may hold
// anything; those that would confuse a terminal are quoted.
func join(at, key string) string {
	if !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	if at == "" {
		return key
	}
	return at + "." + key
}

func label(at string) string {
	if at == "" {
		return "(root)"
	}
	return at
}

// value decodes n into v by v's type.
func (d *decoder) value(at string, n *node, v reflect.Value, r rules) {
	if n.kind == kindNull && at != "" {
		d.add(at, "null", "must not be null; leave the key out")
		return
	}
	if e, ok := v.Addr().Interface().(*PathEntry); ok {
		d.entry(at, n, e)
		return
	}
	if q, ok := v.Addr().Interface().(quantity); ok {
		d.quantity(at, n, q)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(at, n, v.Elem(), r)
	case reflect.Struct:
		d.object(at, n, v)
	case reflect.Slice:
		d.list(at, n, v, r)
	case reflect.Map:
		d.mapping(at, n, v)
	default:
		d.scalar(at, n, v)
	}
}

func (d *decoder) want(at string, n *node, k nodeKind) bool {
	if n.kind == k {
		return true
	}
	d.add(label(at), "type", "must be "+k.String()+", is "+n.kind.String())
	return false
}

func (d *decoder) scalar(at string, n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if d.want(at, n, kindString) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if d.want(at, n, kindBool) {
			v.SetBool(n.truth)
		}
	case reflect.Int:
		if !d.want(at, n, kindNumber) {
			return
		}
		if i, ok := integer(n.text); ok {
			v.SetInt(i)
			return
		}
		d.add(at, "type", "must be a whole number")
	}
}

// integer accepts every spelling of a whole number that a double holds exactly.
func integer(text string) (int64, bool) {
	if len(text) > 32 {
		return 0, false
	}
	if exp := strings.IndexAny(text, "eE"); exp >= 0 {
		if e, err := strconv.Atoi(text[exp+1:]); err != nil || e > 20 || e < -20 {
			return 0, false
		}
	}
	r, ok := new(big.Rat).SetString(text)
	const limit = 1 << 53
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	i := r.Num().Int64()
	return i, i >= -limit && i <= limit
}

func (d *decoder) list(at string, n *node, v reflect.Value, r rules) {
	if !d.want(at, n, kindArray) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.values), len(n.values)))
	for i, item := range n.values {
		where := join(at, strconv.Itoa(i))
		before := len(d.issues)
		d.value(where, item, v.Index(i), rules{})
		if len(d.issues) == before {
			d.checkText(where, v.Index(i), r.each)
		}
	}
}

func (d *decoder) mapping(at string, n *node, v reflect.Value) {
	if !d.want(at, n, kindObject) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i, key := range n.keys {
		item := reflect.New(v.Type().Elem()).Elem()
		where := join(at, key)
		d.value(where, n.values[i], item, rules{})
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
}

func (d *decoder) object(at string, n *node, v reflect.Value) {
	if !d.want(at, n, kindObject) {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	for i, key := range n.keys {
		f, ok := fields.byKey[key]
		if !ok {
			d.unknownKey(at, key, v.Type(), fields)
			continue
		}
		seen[key] = true
		before := len(d.issues)
		where := join(at, key)
		d.value(where, n.values[i], v.Field(f.index), f.rules)
		if len(d.issues) == before {
			d.checkField(where, v.Field(f.index), f.rules)
		}
	}
	for _, f := range fields.list {
		if f.rules.required && !seen[f.key] {
			d.add(join(at, f.key), "required", "is required")
		}
	}
}

func (d *decoder) unknownKey(at, key string, t reflect.Type, fields fieldSet) {
	switch {
	case t.Name() == "Network" && key == "filterRequest":
		d.add(join(at, key), "unknown", "cannot be given in a settings file; it is a function of the library")
	case isStrict(t.Name()):
		d.add(join(at, key), "unknown", "unknown key"+hint(nearest(key, fields)))
	default:
		near := nearest(key, fields)
		if place := elsewhere(key); place != "" && !strings.EqualFold(near, key) {
			near = place
		}
		d.unknown = append(d.unknown, UnknownKey{Path: join(at, key), Nearest: near})
	}
}

// elsewhere finds the dotted path of a key that was written into the wrong object:
// it is a key of the whole file or of one of its sections.
func elsewhere(key string) string {
	root := fieldsOf(reflect.TypeFor[Config]())
	for _, f := range root.list {
		if strings.EqualFold(f.key, key) {
			return f.key
		}
	}
	for _, section := range root.list {
		t := reflect.TypeFor[Config]().Field(section.index).Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			continue
		}
		for _, f := range fieldsOf(t).list {
			if strings.EqualFold(f.key, key) {
				return section.key + "." + f.key
			}
		}
	}
	return ""
}

func hint(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(near) + "?"
}

// field is one settings key of a struct.
type field struct {
	key   string
	index int
	rules rules
}

type fieldSet struct {
	list  []field
	byKey map[string]field
}

func fieldsOf(t reflect.Type) fieldSet {
	s := fieldSet{byKey: make(map[string]field, t.NumField())}
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		f := field{key: key, index: i, rules: parseRules(t.Field(i).Tag.Get("rule"))}
		s.list = append(s.list, f)
		s.byKey[key] = f
	}
	return s
}

// nearest finds the known key that a misspelling most likely meant.
func nearest(key string, fields fieldSet) string {
	best, found := len(key)/3+2, ""
	for _, f := range fields.list {
		if n := editDistance(strings.ToLower(key), strings.ToLower(f.key)); n < best {
			best, found = n, f.key
		}
	}
	return found
}

// editDistance counts insertions, deletions, substitutions and exchanges of neighbours.
func editDistance(a, b string) int {
	const tooLong = 64
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	var rows [tooLong + 1][tooLong + 1]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
