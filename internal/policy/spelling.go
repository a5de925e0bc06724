package policy

import (
	"path"
	"strings"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/glob"
)

// item is one list entry with where it came from.
type item struct {
	config.PathEntry
	rule Rule
}

// reading is one meaning of an entry: a name, or a pattern beneath a directory.
type reading struct {
	name string
	// dir and pattern are set for a pattern; dir is literal.
	dir     string
	pattern string
	// subtree says that the pattern ended in "/**".
	subtree bool
}

// absolute makes a spelling absolute without looking at the disk. A home
// directory that is unknown makes "~" mean nothing rather than the root.
func (r *resolver) absolute(spelling string) string {
	s := spelling
	switch {
	case s == "~":
		s = r.in.Home
	case strings.HasPrefix(s, "~/"):
		if r.in.Home == "" {
			return ""
		}
		s = r.in.Home + s[1:]
	}
	if s == "" {
		return ""
	}
	if !strings.HasPrefix(s, "/") {
		s = r.in.Cwd + "/" + s
	}
	return s
}

// readings lists the meanings of an entry. A text with pattern characters is a
// pattern, and also the name it spells where that exists: a deny must not lose
// its object because the object's name looks like a pattern.
func (r *resolver) readings(it item, allow bool) ([]reading, error) {
	if strings.ContainsRune(it.Path, 0) {
		return nil, &Error{Code: "nul_in_path", Setting: it.rule.Setting, Entry: it.rule.Entry, Reason: "a path cannot hold a NUL byte"}
	}
	spelled := it.Path
	subtree := false
	if !it.Literal {
		if cut, ok := strings.CutSuffix(spelled, "/**"); ok {
			spelled, subtree = cut, true
			if spelled == "" {
				spelled = "/"
			}
		}
	}
	abs := r.absolute(spelled)
	if abs == "" {
		return nil, nil
	}
	if it.Literal || !glob.HasMeta(spelled) {
		return []reading{{name: path.Clean(abs)}}, nil
	}
	base, pattern := splitPattern(abs)
	all := []reading{{dir: base, pattern: pattern, subtree: subtree}}
	return append(all, r.literalReadings(base, pattern, subtree, allow)...), nil
}

// splitPattern separates the literal directory before the first pattern
// character. Only there may ".." be folded: beyond, a pattern stands in between.
func splitPattern(abs string) (base, pattern string) {
	meta := strings.IndexAny(abs, "*?[]")
	cut := strings.LastIndexByte(abs[:meta], '/')
	pattern = strings.Join(components(abs[cut+1:]), "/")
	if strings.HasSuffix(abs, "/") {
		pattern += "/" // matches nothing, as written
	}
	return path.Clean("/" + abs[:cut+1]), pattern
}

// literalReadings follows the components of a pattern that exist on disk as
// they are spelled.
func (r *resolver) literalReadings(base, pattern string, subtree, allow bool) []reading {
	var all []reading
	parts := components(pattern)
	here := base
	for i, c := range parts {
		here = child(here, c)
		if !glob.HasMeta(c) {
			continue
		}
		info, err := r.fs.Lstat(here)
		if err != nil && (allow || absent(err)) || allow && info.Kind == Symlink {
			return all
		}
		rest := parts[i+1:]
		if !glob.HasMeta(strings.Join(rest, "/")) {
			name := path.Clean(here + "/" + strings.Join(rest, "/"))
			if allow && !r.plainBelow(here, rest) {
				return all
			}
			return append(all, reading{name: name})
		}
		all = append(all, reading{dir: here, pattern: strings.Join(rest, "/"), subtree: subtree})
	}
	return all
}

// plainBelow reports whether no component of rest below dir is a symbolic link
// or beyond looking at; what does not exist yet is neither.
func (r *resolver) plainBelow(dir string, rest []string) bool {
	for _, c := range rest {
		dir = child(dir, c)
		info, err := r.fs.Lstat(dir)
		if err != nil {
			return absent(err)
		}
		if info.Kind == Symlink {
			return false
		}
	}
	return true
}
