package glob

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.pem", "a.pem", true}, {"*.pem", "x/a.pem", false}, {"*", ".hidden", true}, {"a?c", "abc", true}, {"a?c", "a/c", false},
		{"keys/*.pem", "keys/sub/x.pem", false}, {"keys/**/*.pem", "keys/sub/x.pem", true}, {"keys/**/*.pem", "keys/x.pem", true}, // linux 65
		{"a/**/b", "a/b", true}, {"a/**/b", "a/x/b", true}, {"a/**/b", "a/x/y/b", true}, {"a/**/b", "ab", false}, // config 59
		{"file[0-9].txt", "file3.txt", true}, {"file[0-9].txt", "file10.txt", false}, {"[!a]", "!", true}, {"[!a]", "a", true}, {"[!a]", "b", false}, // config 58
		{"[user-id]/x", "[user-id]/x", true}, {"[user-id]/x", "u/x", false}, {"[a-c]x", "bx", true}, {"[*]", "*", true}, {"[*]", "a", false}, // linux 73
		{"[-a]", "-", true}, {"[a-]", "-", true}, {"[]", "[]", true}, {"[", "[", true}, {"a]", "a]", true}, {"[]a]", "[]a]", true},
		{"***/x", "abc/x", true}, {"***/x", "x", true}, {"a**b", "a/x/b", true}, {"**x", "a/b/x", true}, {"**/.env", ".env", true}, {"**/.env", "a/b/.env", true}, // linux 74
		{"**/.env", "a/my.env", false}, {"[.-0]x", "/x", true}, {"a\nb*", "a\nbc", true}, {"b[2024-01-15]", "b[2024-01-15]", true}, {"**", "a/b", true},
		{"**/*.key", "a/b.key", true}, {"**/*.key", "b.keys", false},
	} {
		if got := Compile(c.pattern).Match(c.path); got != c.want {
			t.Errorf("%q against %q = %v", c.pattern, c.path, got)
		}
	}
}

func TestMayMatchBelow(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"a/*/c", "a", true}, {"a/*/c", "b", false}, {"a/*/c", "a/x", true}, {"a/*/c", "a/x/c", false}, {"**/x", "any/where", true}, {"a/**/x", "b", false}, {"a/**/x", "a/q/r", true}, {"*.pem", "d", false}, {"*.pem", "", true},
	} {
		if got := Compile(c.pattern).MayMatchBelow(c.dir); got != c.want {
			t.Errorf("%q below %q = %v", c.pattern, c.dir, got)
		}
	}
}

// FuzzPruning checks that pruning never hides a match.
func FuzzPruning(f *testing.F) {
	f.Add("a/**/b*", "a/x/bc")
	f.Add("[a-c]/[.-0]x", "b/1x")
	f.Add("***/[!x]*", "q/x")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 64 || len(path) > 64 || path == "" || strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.HasSuffix(path, "/") {
			return
		}
		p := Compile(pattern)
		if !p.Match(path) {
			return
		}
		for i := range len(path) {
			if path[i] == '/' && !p.MayMatchBelow(path[:i]) {
				t.Errorf("%q matches %q but is not looked for below %q", pattern, path, path[:i])
			}
		}
	})
}
