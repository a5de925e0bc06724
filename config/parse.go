package config

import (
	"bytes"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Parse reads settings. An error that is not [ErrEmpty] is an [*Error] with
// everything that is wrong. Unknown keys are returned beside it: a misspelled
// key is often why a required one is missing.
func Parse(data []byte) (*Config, []UnknownKey, error) {
	bom := []byte("\xef\xbb\xbf")
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, bom))) == 0 {
		return nil, nil, ErrEmpty
	}
	if bytes.HasPrefix(data, bom) {
		return nil, nil, &Error{Issues: []Issue{{Path: label(""), Code: "format", Message: "not valid JSON: starts with a byte order mark"}}}
	}
	tree, issues := parseTree(data)
	c, d := &Config{}, &decoder{issues: issues}
	if tree != nil {
		d.value("", tree, reflect.ValueOf(c).Elem(), rules{})
	}
	if err := c.finish(d); err != nil {
		return nil, d.unknown, err
	}
	return c, d.unknown, nil
}

// Validate applies the rules of [Parse] to settings made by a program, where nil
// lists are empty ones. The error is an [*Error].
func (c *Config) Validate() error {
	d := &decoder{}
	if c == nil {
		d.add(label(""), "required", "is required")
		return c.finish(d)
	}
	d.walk("", reflect.ValueOf(c).Elem())
	return c.finish(d)
}

// finish checks the rules about several values and returns all issues.
func (c *Config) finish(d *decoder) error {
	if !d.misshapen() {
		c.conflicts(d)
	}
	if len(d.issues) > 0 {
		return &Error{Issues: d.issues}
	}
	return nil
}

// misshapen reports whether values are missing or of another type, which rules
// about several values could not see past.
func (d *decoder) misshapen() bool {
	for _, i := range d.issues {
		switch i.Code {
		case "type", "null", "required", "enum", "duplicate":
			return true
		}
	}
	return false
}

// walk checks typed settings; a zero value is an absent key unless required.
func (d *decoder) walk(at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.walk(at, v.Elem())
		}
	case reflect.String:
		d.walkText(at, v.String())
	case reflect.Struct:
		d.walkStruct(at, v)
	case reflect.Slice:
		for i := range v.Len() {
			d.walk(join(at, strconv.Itoa(i)), v.Index(i))
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			d.walkText(join(at, key.String()), key.String())
			d.walk(join(at, key.String()), v.MapIndex(key))
		}
	}
}

// walkText refuses what a settings file could not hold: it would become another
// text on the way to a helper process.
func (d *decoder) walkText(at, s string) {
	if !utf8.ValidString(s) {
		d.add(at, "format", "not valid UTF-8")
	}
}

func (d *decoder) walkStruct(at string, v reflect.Value) {
	if e, ok := v.Interface().(PathEntry); ok {
		d.walkText(at, e.Path)
		if e.Path == "" {
			d.add(at, "nonempty", "must not be empty")
		}
		return
	}
	if p, ok := v.Interface().(Publish); ok {
		d.report(at, p.Validate())
		return
	}
	for _, f := range fieldsOf(v.Type()).list {
		where, value := join(at, f.key), v.Field(f.index)
		d.walk(where, value)
		if !value.IsZero() || f.rules.required {
			d.checkField(where, value, f.rules)
			d.checkEach(where, value, f.rules)
		}
	}
}

func (d *decoder) checkEach(at string, v reflect.Value, r rules) {
	if v.Kind() != reflect.Slice {
		return
	}
	for i := range v.Len() {
		d.checkText(join(at, strconv.Itoa(i)), v.Index(i), r.each)
	}
}
