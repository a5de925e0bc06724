package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/srt-sandbox/srt/internal/hostname"
)

// rules are the parsed form of a "rule" tag.
type rules struct {
	required, nonempty bool
	min, max           int
	enum               []string
	format, each       string
}

func parseRules(tag string) rules {
	var r rules
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "":
		case "required":
			r.required = true
		case "nonempty":
			r.nonempty = true
		case "min":
			r.min, _ = strconv.Atoi(value)
		case "max":
			r.max, _ = strconv.Atoi(value)
		case "enum":
			r.enum = strings.Split(value, "|")
		case "each":
			r.each = value
		default:
			r.format = name
		}
	}
	return r
}

// checkField checks a value that is present.
func (d *decoder) checkField(at string, v reflect.Value, r rules) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Int:
		d.checkRange(at, int(v.Int()), r, "")
	case reflect.Int64: // a quantity
		if v.Int() <= 0 {
			d.add(at, "range", "must be more than 0; leave it out for no limit")
		}
	case reflect.String:
		d.checkString(at, v.String(), r)
	case reflect.Slice:
		if r.nonempty && v.Len() == 0 {
			d.add(at, "nonempty", "must not be empty")
		}
		if r.format == "portrange" {
			d.report(at, checkPortRange(v.Interface().([]int)))
		}
	case reflect.Map:
		d.checkMapping(at, v, r)
	}
}

func (d *decoder) checkMapping(at string, v reflect.Value, r rules) {
	for _, key := range sortedKeys(v) {
		d.checkText(join(at, key.String()), v.MapIndex(key), r.each)
	}
}

// sortedKeys returns the keys of a map in a fixed order, for messages that do
// not change from run to run.
func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})
}

func (d *decoder) checkRange(at string, n int, r rules, unit string) {
	if r.max != 0 && (n < r.min || n > r.max) {
		d.add(at, "range", fmt.Sprintf("must be %d to %d%s", r.min, r.max, unit))
	}
}

func (d *decoder) checkString(at, s string, r rules) {
	if r.nonempty && s == "" {
		d.add(at, "nonempty", "must not be empty")
		return
	}
	d.checkRange(at, utf8.RuneCountInString(s), r, " characters")
	if len(r.enum) > 0 {
		for _, allowed := range r.enum {
			if s == allowed {
				return
			}
		}
		d.add(at, "enum", fmt.Sprintf("is %q, must be one of %s", s, strings.Join(r.enum, ", ")))
	}
	if r.format != "" {
		d.report(at, checkFormat(r.format, s))
	}
}

// checkText checks one element of a list of texts or ports, or of a map of texts.
func (d *decoder) checkText(at string, v reflect.Value, format string) {
	switch {
	case format == "port":
		d.checkRange(at, int(v.Int()), eachRules(format), "")
	case format != "" && v.Kind() == reflect.String:
		d.report(at, checkFormat(format, v.String()))
	}
}

func (d *decoder) report(at string, err error) {
	if err != nil {
		d.add(at, "format", err.Error())
	}
}

const (
	environmentName = `^[A-Za-z_][A-Za-z0-9_]*$`
	uuid            = `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
)

// matches compiles when it is needed: most settings need none of the
// expressions, and every start of srt would pay for them.
func matches(expression, s string) bool { return regexp.MustCompile(expression).MatchString(s) }

// checkFormat applies a named text format.
func checkFormat(format, s string) error {
	var err error
	switch format {
	case "nonempty":
		if s == "" {
			err = errors.New("must not be empty")
		}
	case "allowhost":
		_, err = hostname.ParseAllow(s)
	case "denyhost":
		_, err = hostname.ParseDeny(s)
	case "host":
		_, err = hostname.ParseHostOnly(s)
	case "range":
		_, err = hostname.ParseRange(s)
	case "absolute":
		if !filepath.IsAbs(s) && !strings.HasPrefix(s, "/") {
			err = errors.New("must be an absolute path")
		}
	case "envname":
		if !matches(environmentName, s) {
			err = fmt.Errorf("%q is not the name of an environment variable", s)
		}
	case "uuid":
		if !matches(uuid, s) {
			err = fmt.Errorf("%q is not a UUID", s)
		}
	case "machname":
		if i := strings.IndexByte(s, '*'); s == "" || i >= 0 && i != len(s)-1 {
			err = fmt.Errorf(`%q may hold "*" only as its last character`, s)
		}
	case "proxyurl":
		err = checkProxyURL(s)
	case "extract":
		_, err = CompileExtract(s)
	}
	return err
}

// checkProxyURL accepts what the filter can really use as an upstream: anything
// else would send traffic out directly. The value may hold a password, so no
// message repeats it.
func checkProxyURL(s string) error {
	if !strings.Contains(s, "://") {
		if _, port, ok := strings.Cut(s, ":"); !ok || port == "" {
			return errors.New("must be a proxy URL such as http://host:port")
		}
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return errors.New("must be a proxy URL such as http://host:port")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return fmt.Errorf("the scheme %q is not supported; use http, https, socks5 or socks5h", u.Scheme)
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return errors.New("the port of the proxy must be 1 to 65535")
	}
	return nil
}

func checkPortRange(r []int) error {
	const widest = 64
	if len(r) != 2 {
		return errors.New("must be [lowest port, highest port]")
	}
	if r[0] < 1 || r[1] > 65535 || r[0] > r[1] || r[1]-r[0] > widest {
		return fmt.Errorf("must be two ports from 1 to 65535, the second at most %d above the first", widest)
	}
	return nil
}
