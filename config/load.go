package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
)

// maxFile bounds a settings file; 10 000 rules need about half a megabyte.
const maxFile = 16 << 20

// Load reads the settings file at path, which may be a pipe. errors.Is tells
// [ErrMissing], [ErrEmpty], [ErrInvalid] and the errors of package fs apart.
func Load(path string) (*Config, []UnknownKey, error) {
	data, err := readAll(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading settings from %s: %w", path, ErrMissing)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading settings from %s: %w%s", path, err, symbol(err))
	}
	c, unknown, err := Parse(data)
	var invalid *Error
	if errors.As(err, &invalid) {
		invalid.File = path
	} else if err != nil {
		err = fmt.Errorf("reading settings from %s: %w", path, err)
	}
	return c, unknown, err
}

func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return data, err
}

// symbol names the system's error the way scripts match on it.
func symbol(err error) string {
	names := map[syscall.Errno]string{syscall.EACCES: "EACCES", syscall.EISDIR: "EISDIR", syscall.ENOTDIR: "ENOTDIR", syscall.EIO: "EIO", syscall.ELOOP: "ELOOP"}
	var e syscall.Errno
	if errors.As(err, &e) && names[e] != "" {
		return " (" + names[e] + ")"
	}
	return ""
}

// Parse reads settings. An error that is not [ErrEmpty] is an [*Error] with
// everything that is wrong.
func Parse(data []byte) (*Config, []UnknownKey, error) {
	bom := []byte("\xef\xbb\xbf")
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, bom))) == 0 {
		return nil, nil, ErrEmpty
	}
	if bytes.HasPrefix(data, bom) {
		return nil, nil, &Error{Issues: []Issue{{Path: "(root)", Code: "format", Message: "not valid JSON: starts with a byte order mark"}}}
	}
	tree, err := parseTree(data)
	if err != nil {
		return nil, nil, &Error{Issues: []Issue{{Path: "(root)", Code: "format", Message: err.Error()}}}
	}
	c, d := &Config{}, &decoder{}
	d.value("", tree, reflect.ValueOf(c).Elem(), rules{})
	if !d.misshapen() {
		c.conflicts(d)
	}
	if len(d.issues) > 0 {
		return nil, nil, &Error{Issues: d.issues}
	}
	return c, d.unknown, nil
}

// misshapen reports whether values are missing or of another type, which rules
// about several values could not see past.
func (d *decoder) misshapen() bool {
	for _, i := range d.issues {
		switch i.Code {
		case "type", "null", "required", "enum":
			return true
		}
	}
	return false
}

// Validate applies the rules of [Parse] to settings made by a program. The
// error is an [*Error].
func (c *Config) Validate() error {
	d := &decoder{}
	d.walk("", reflect.ValueOf(c).Elem())
	if !d.misshapen() {
		c.conflicts(d)
	}
	if len(d.issues) > 0 {
		return &Error{Issues: d.issues}
	}
	return nil
}

// walk checks typed settings; a zero value is an absent key unless required.
func (d *decoder) walk(at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.walk(at, v.Elem())
		}
	case reflect.Struct:
		if e, ok := v.Interface().(PathEntry); ok {
			if e.Path == "" {
				d.add(at, "nonempty", "must not be empty")
			}
			return
		}
		for _, f := range fieldsOf(v.Type()).list {
			where, value := join(at, f.key), v.Field(f.index)
			d.walk(where, value)
			if !value.IsZero() || f.rules.required && value.Kind() == reflect.String {
				d.checkField(where, value, f.rules)
				d.checkEach(where, value, f.rules)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			d.walk(join(at, strconv.Itoa(i)), v.Index(i))
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

// Clone returns a deep copy.
func (c *Config) Clone() *Config {
	v := deepCopy(reflect.ValueOf(c))
	return v.Interface().(*Config)
}

func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(deepCopy(v.Field(i)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(k, deepCopy(v.MapIndex(k)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// DefaultPath is where the settings are when no file is named.
func DefaultPath(home string) string { return filepath.Join(home, ".srt-settings.json") }

// Home returns the user's home directory: HOME where it is an absolute path,
// else the entry of the user database. A relative or empty HOME would make the
// working directory supply the policy that confines it.
func Home(lookup func(string) (string, bool)) (string, error) {
	name := "HOME"
	if os.PathSeparator == '\\' {
		name = "USERPROFILE"
	}
	if home, ok := lookup(name); ok && filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("finding the home directory: %s is not an absolute path and the user database has none for user %d; set %s", name, os.Getuid(), name)
	}
	return u.HomeDir, nil
}
