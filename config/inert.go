package config

import (
	"fmt"
	"runtime"
	"strings"
)

// inertDenies refuses rooted deny patterns that end in a separator: they match
// nothing, and a deny that matches nothing looks like protection.
func (c *Config) inertDenies(d *decoder) {
	if c.Filesystem.Disabled {
		return
	}
	d.inertEntries("filesystem.denyRead", c.Filesystem.DenyRead)
	d.inertEntries("filesystem.denyWrite", c.Filesystem.DenyWrite)
	if c.Credentials == nil {
		return
	}
	for i, f := range c.Credentials.Files {
		if f.Mode == "deny" {
			d.inertPath(fmt.Sprintf("credentials.files.%d.path", i), f.Path)
		}
	}
}

func (d *decoder) inertEntries(list string, entries []PathEntry) {
	for i, e := range entries {
		if !e.Literal {
			d.inertPath(fmt.Sprintf("%s.%d", list, i), e.Path)
		}
	}
}

func (d *decoder) inertPath(at, p string) {
	if s := localSpelling(); s.inert(p) {
		d.add(at, "format", fmt.Sprintf("the pattern %q ends in a separator and matches nothing; write %q", p, strings.TrimRight(p, s.separators)))
	}
}

// spelling says how paths are written on a system.
type spelling struct {
	separators string
	windows    bool
}

func localSpelling() spelling { return spellingOf(runtime.GOOS) }

func spellingOf(goos string) spelling {
	if goos == "windows" {
		return spelling{separators: `/\`, windows: true}
	}
	return spelling{separators: "/"}
}

func (s spelling) endsInSeparator(p string) bool {
	return p != "" && strings.Contains(s.separators, p[len(p)-1:])
}

func (s spelling) rooted(p string) bool {
	drive := s.windows && len(p) > 2 && p[1] == ':' && strings.Contains(s.separators, p[2:3])
	return drive || p != "" && strings.Contains(s.separators+"~", p[:1])
}

// inert reports whether a text is a rooted pattern that ends in a separator. On
// Windows brackets alone are part of a name, and so is the "?" of the prefix for
// long paths.
func (s spelling) inert(p string) bool {
	special := "*?[]"
	if s.windows {
		special = "*?"
		p = strings.TrimPrefix(p, `\\?\`)
	}
	return s.rooted(p) && s.endsInSeparator(p) && strings.ContainsAny(p, special)
}
