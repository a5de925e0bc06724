package policy

import (
	"path"
	"slices"
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
// Names and directories are absolute and may still hold "..", which the kernel
// resolves after the links before it.
type reading struct {
	name string
	// dir and pattern are set for a pattern; dir is literal.
	dir, pattern string
	// subtree says that the pattern ended in "/**".
	subtree bool
}

// readings lists the meanings of an entry. A text with pattern characters is a
// pattern, and also the name it spells where that exists: a deny must not lose
// its object because the object's name looks like a pattern.
func (r *resolver) readings(it item, allow bool) ([]reading, error) {
	if strings.ContainsRune(it.Path, 0) {
		return nil, &Error{Code: "nul_in_path", Setting: it.rule.Setting, Entry: it.rule.Entry, Reason: "a path cannot hold a NUL byte"}
	}
	spelled, subtree := it.Path, false
	if !it.Literal {
		spelled, subtree = cutSubtree(spelled)
		r.warnUnexpanded(it)
	}
	start, rest, ok := r.anchor(spelled)
	if !ok {
		return nil, nil
	}
	if it.Literal || !glob.HasMeta(rest) {
		return nameReadings(start+rest, allow), nil
	}
	// What stands in front of the entry's own text is a name, whatever
	// characters it holds.
	dir, pattern := glob.Split(rest)
	var all []reading
	for _, base := range nameReadings(start+dir, allow) {
		rd := reading{dir: base.name, pattern: tidy(pattern), subtree: subtree}
		all = append(append(all, rd), r.literalReadings(rd, allow)...)
	}
	return all, nil
}

// cutSubtree drops the "/**" that means "and everything beneath".
func cutSubtree(s string) (string, bool) {
	cut, ok := strings.CutSuffix(s, "/**")
	if ok && cut == "" {
		cut = "/"
	}
	return cut, ok
}

// wholeTree turns the other ways to spell "and everything beneath" that people use
// into "/**": in lists of what may be written, where a pattern would have no
// effect, or none on what appears later. A list of what may be read does know
// patterns.
func wholeTree(e config.PathEntry) config.PathEntry {
	if e.Literal {
		return e
	}
	if cut, ok := strings.CutSuffix(e.Path, "**/*"); ok && (cut == "" || strings.HasSuffix(cut, "/")) {
		e.Path = cut + "**"
	}
	if e.Path == "**" {
		e.Path = "./**"
	}
	return e
}

// anchor splits a spelling into the directory that it starts from and the rest.
// A home directory that is unknown makes "~" mean nothing rather than the root.
func (r *resolver) anchor(s string) (start, rest string, ok bool) {
	switch {
	case s == "~" || strings.HasPrefix(s, "~/"):
		return r.in.Home, s[1:], r.in.Home != ""
	case strings.HasPrefix(s, "/"):
		return "", s, true
	}
	return r.in.Cwd + "/", s, s != ""
}

// nameReadings folds ".." in the text, which is what an allow means. A link
// before ".." makes the kernel mean something else; a deny covers both.
func nameReadings(p string, allow bool) []reading {
	all := []reading{{name: path.Clean(p)}}
	if !allow && slices.Contains(components(p), "..") {
		all = append(all, reading{name: p})
	}
	return all
}

// tidy drops empty and "." components of a pattern. A slash at its end stays:
// it matches nothing, as written.
func tidy(pattern string) string {
	parts := slices.DeleteFunc(components(pattern), func(c string) bool { return c == "." })
	clean := strings.Join(parts, "/")
	if strings.HasSuffix(pattern, "/") {
		clean += "/"
	}
	return clean
}

// literalReadings follows the components of a pattern that exist on disk as
// they are spelled.
func (r *resolver) literalReadings(rd reading, allow bool) []reading {
	var all []reading
	parts := components(rd.pattern)
	here := rd.dir
	for i, c := range parts {
		here = child(here, c)
		if !glob.HasMeta(c) {
			continue
		}
		if !r.existsFor(here, allow) {
			return all
		}
		rest := strings.Join(parts[i+1:], "/")
		if glob.HasMeta(rest) {
			if r.isDirFor(here, allow) {
				all = append([]reading{{dir: here, pattern: rest, subtree: rd.subtree}}, all...)
			}
			continue
		}
		// ".." must not be folded across what is also a pattern.
		if allow && (slices.Contains(parts[i+1:], "..") || !r.plainBelow(here, parts[i+1:])) {
			return all
		}
		return append(all, reading{name: here + prefixed(rest)})
	}
	return all
}

func prefixed(rest string) string {
	if rest == "" {
		return ""
	}
	return "/" + rest
}

// existsFor: for a deny, what cannot be looked at exists; for an allow, a link
// does not.
func (r *resolver) existsFor(p string, allow bool) bool {
	if !allow {
		return r.fs.exists(p)
	}
	k := r.fs.kind(p)
	return k != Missing && k != Symlink
}

// isDirFor: a deny looks through links and at what it cannot look at.
func (r *resolver) isDirFor(p string, allow bool) bool {
	if allow {
		return r.fs.kind(p) == Dir
	}
	l, err := r.land(p, true)
	return err == nil && (l.closed != "" || l.info.Kind == Dir)
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

// PatternWarnings lists the entries that are not enforced as patterns: those of
// allowWrite, of which only existing names count, and those of denyWrite, which
// do not cover files that appear later. It does not look at the disk.
func PatternWarnings(c *config.Config) []string {
	if c.Filesystem.Disabled {
		return nil
	}
	var all []string
	for _, e := range slices.Concat(c.Filesystem.AllowWrite, c.Filesystem.DenyWrite) {
		if s, _ := cutSubtree(wholeTree(e).Path); !e.Literal && glob.HasMeta(s) {
			all = append(all, e.Path)
		}
	}
	return all
}
