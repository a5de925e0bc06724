package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits bound what a command and everything it starts may use. A zero field is
// no limit. Limits only ever lower what the caller has: where the caller's own
// limit (ulimit) is tighter, it stays.
type Limits struct {
	// Memory bounds the memory of all processes together where srt may make a
	// cgroup (version 2, delegated to the caller). Elsewhere it bounds the
	// writable private memory of each process (RLIMIT_DATA), with a warning.
	Memory Size `json:"memory,omitzero"`
	// Processes bounds how many processes and threads exist at once.
	Processes int `json:"processes,omitzero" rule:"min=1,max=4194304"`
	// OpenFiles bounds the open descriptors of each process.
	OpenFiles int `json:"openFiles,omitzero" rule:"min=1,max=1073741816"`
	// FileSize bounds how large a file the command may write.
	FileSize Size `json:"fileSize,omitzero"`
	// CPUTime bounds the processor time of each process, rounded up to seconds.
	CPUTime Duration `json:"cpuTime,omitzero"`
	// WallTime bounds how long the command may run.
	WallTime Duration `json:"wallTime,omitzero"`
}

// Validate checks limits made by a program. The error is an [*Error].
func (l *Limits) Validate() error {
	d := &decoder{}
	d.walk("limits", reflect.ValueOf(l))
	if len(d.issues) > 0 {
		return &Error{Issues: d.issues}
	}
	return nil
}

// With returns the limits with those that over sets in their place. Either may
// be nil.
func (l *Limits) With(over *Limits) Limits {
	var merged Limits
	if l != nil {
		merged = *l
	}
	if over == nil {
		return merged
	}
	to, from := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(*over)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return merged
}

// Set reads one limit from texts, as a command line has them: the name is the
// settings key in lower case with hyphens, such as "open-files".
func (l *Limits) Set(name, value string) error {
	v := reflect.ValueOf(l).Elem()
	var known []string
	for _, f := range fieldsOf(v.Type()).list {
		if hyphenated(f.key) != name {
			known = append(known, hyphenated(f.key))
			continue
		}
		n := &node{kind: kindString, text: value}
		if v.Field(f.index).Kind() == reflect.Int {
			if n.kind = kindNumber; !digits(value) {
				return fmt.Errorf("%s: %q is not a whole number", name, value)
			}
		}
		d := &decoder{}
		d.value(name, n, v.Field(f.index), f.rules)
		if len(d.issues) == 0 {
			d.checkField(name, v.Field(f.index), f.rules)
		}
		if len(d.issues) > 0 {
			return errors.New(d.issues[0].String())
		}
		return nil
	}
	return fmt.Errorf("%q is none of %s", name, strings.Join(known, ", "))
}

// hyphenated spells a settings key as command lines do.
func hyphenated(key string) string {
	var b strings.Builder
	for _, r := range key {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// quantity is a number that settings may also write as a text with a unit.
type quantity interface {
	setNumber(int64) error
	setText(string) error
}

// quantity decodes either form.
func (d *decoder) quantity(at string, n *node, q quantity) {
	switch n.kind {
	case kindNumber:
		i, ok := integer(n.text)
		if !ok {
			d.add(at, "type", "must be a whole number, or a text with a unit")
			return
		}
		d.report(at, q.setNumber(i))
	case kindString:
		d.report(at, q.setText(n.text))
	default:
		d.add(at, "type", "must be a number or a text, is "+n.kind.String())
	}
}

// readQuantity implements UnmarshalJSON for quantities.
func readQuantity(data []byte, q quantity) error {
	n, issues := parseTree(data)
	d := &decoder{issues: issues}
	if n != nil {
		d.quantity("value", n, q)
	}
	if len(d.issues) > 0 {
		return errors.New(d.issues[0].String())
	}
	return nil
}

// Size is a number of bytes. Settings write it as a number, or as a text with a
// binary unit: "64k", "512m", "2GiB".
type Size int64

const sizePattern = `^[0-9]+([kKmMgGtT][iI]?)?[bB]?$`

// sizeUnits are the units of a size, largest first.
var sizeUnits = []struct {
	letter string
	bytes  int64
}{{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"", 1}}

// String returns the size with the largest unit that expresses it exactly.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.letter
		}
	}
	return "0"
}

// UnmarshalJSON reads either form.
func (s *Size) UnmarshalJSON(data []byte) error { return readQuantity(data, s) }

func (s *Size) setNumber(n int64) error {
	*s = Size(n)
	return nil
}

func (s *Size) setText(text string) error {
	unit := strings.TrimLeft(text, "0123456789")
	number := text[:len(text)-len(unit)]
	letter := strings.TrimSuffix(strings.ToLower(unit), "b")
	if len(letter) == 2 {
		letter = strings.TrimSuffix(letter, "i")
	}
	for _, u := range sizeUnits {
		if u.letter != letter || number == "" {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes {
			return fmt.Errorf("%q is too large", text)
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf(`%q is not a size such as 1048576, "64k", "512m" or "2g"`, text)
}

// durationPattern is looser than the parser.
const durationPattern = `^[+]?[0-9.]`

// Duration is a span of time. Settings write it as a number of seconds, or as a
// text: "90s", "10m", "1h30m".
type Duration time.Duration

// String returns the duration without units that are zero, such as "10m".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalJSON writes the text form, which says the unit.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads either form.
func (d *Duration) UnmarshalJSON(data []byte) error { return readQuantity(data, d) }

func (d *Duration) setNumber(n int64) error {
	if n > int64(math.MaxInt64/time.Second) || n < -int64(math.MaxInt64/time.Second) {
		return fmt.Errorf("%d seconds are too long", n)
	}
	*d = Duration(time.Duration(n) * time.Second)
	return nil
}

func (d *Duration) setText(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && digits(text) {
		return d.setNumber(n)
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`%q is not a time such as 90, "90s", "10m" or "1h30m"`, text)
	}
	*d = Duration(span)
	return nil
}
