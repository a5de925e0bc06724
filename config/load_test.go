package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want error
		text string
	}{
		"config 1, 11 missing": {filepath.Join(dir, "none"), ErrMissing, "none"},
		"config 9 no home":     {DefaultPath(filepath.Join(dir, "nonexistent")), ErrMissing, ".srt-settings.json"},
		"config 2 empty":       {writeFile(t, dir, "empty", ""), ErrEmpty, "empty"},
		"config 3 white space": {writeFile(t, dir, "blank", " \n\t"), ErrEmpty, "blank"},
		"config 4 mark":        {writeFile(t, dir, "mark", "\xef\xbb\xbf"), ErrEmpty, "mark"},
		"config 4 mark, blank": {writeFile(t, dir, "mark2", "\xef\xbb\xbf \n"), ErrEmpty, "mark2"},
		"config 5":             {writeFile(t, dir, "mark3", "\xef\xbb\xbf"+settings("", "", "")), ErrInvalid, "mark3"},
		"invalid":              {writeFile(t, dir, "bad", "{"), ErrInvalid, "bad"},
	} {
		_, _, err := Load(c.path)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is not the system's error: %v", err)
	}
	if c, _, err := Load(writeFile(t, dir, "good", settings("", "", ""))); err != nil || c.SearchDepth() != 3 {
		t.Errorf("a good file: %v", err)
	}
}

// config 1: without a file nothing is denied to read and nothing is open to
// write or reach.
func TestDefault(t *testing.T) {
	want := &Config{
		Network:    Network{AllowedDomains: []string{}, DeniedDomains: []string{}},
		Filesystem: Filesystem{DenyRead: []PathEntry{}, AllowWrite: []PathEntry{}, DenyWrite: []PathEntry{}},
	}
	if diff := cmp.Diff(want, Default()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// All issues of a file are in one message that names it.
func TestLoadNamesFileAndIssues(t *testing.T) {
	p := writeFile(t, t.TempDir(), "two", `{"network":{"allowedDomains":["com"],"deniedDomains":[]}}`)
	_, _, err := Load(p)
	var invalid *Error
	if !errors.As(err, &invalid) || invalid.File != p || len(invalid.Issues) != 2 {
		t.Fatalf("%v", err)
	}
	if !strings.HasPrefix(err.Error(), "invalid settings in "+p+": network.allowedDomains.0: ") || !strings.Contains(err.Error(), "; filesystem: is required") {
		t.Errorf("%v", err)
	}
}

func TestLoadBoundsSize(t *testing.T) {
	p := writeFile(t, t.TempDir(), "huge", "")
	if err := os.Truncate(p, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(p); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

// config 9, 10: the home directory is never a relative path.
func TestHome(t *testing.T) {
	env := func(v string, ok bool) func(string) (string, bool) {
		return func(name string) (string, bool) {
			if name != homeVariable {
				t.Errorf("asks for %s", name)
			}
			return v, ok
		}
	}
	absolute := filepath.Join(t.TempDir(), "nonexistent")
	if h, err := Home(env(absolute, true)); err != nil || h != absolute {
		t.Errorf("%q, %v", h, err)
	}
	t.Setenv(homeVariable, "relative")
	system, systemErr := Home(env("", false))
	for _, v := range []string{"", ".", "x/y", "~"} {
		h, err := Home(env(v, true))
		if h != system || (err == nil) != (systemErr == nil) || err == nil && !filepath.IsAbs(h) {
			t.Errorf("%s=%q gives %q, %v; without it %q, %v", homeVariable, v, h, err, system, systemErr)
		}
	}
}
