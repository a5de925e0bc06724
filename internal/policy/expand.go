package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/srt-sandbox/srt/internal/glob"
)

// match is one object that a deny pattern found.
type match struct {
	path string // real
	kind Kind
	// unlistable marks a directory whose contents could not be judged; it is
	// denied whole, and nothing beneath it is shown again.
	unlistable bool
}

// expansion walks a directory for the objects that a deny pattern matches now.
// It follows links to directories, because what is behind them is reached by a
// matching name, but never back up the tree.
type expansion struct {
	r       *resolver
	pattern *glob.Pattern
	subtree bool
	base    string // real path of the walk's start
	visited map[string]bool
	found   map[string]match
}

// expand returns the matches of a deny pattern below a literal directory.
func (r *resolver) expand(rd reading, rule Rule) (map[string]match, error) {
	if rd.dir == "/" {
		return nil, &Error{Code: "unbounded_pattern", Setting: rule.Setting, Entry: rule.Entry,
			Reason: "a pattern that begins in the root directory would need a search of the whole machine; start it with a directory"}
	}
	l, err := r.land(rd.dir, true)
	if err != nil || l.info.Kind != Dir {
		return nil, nil //nolint:nilerr // nothing below a directory that is not there
	}
	e := &expansion{r: r, pattern: glob.Compile(rd.pattern), subtree: rd.subtree, base: l.path, visited: map[string]bool{}, found: map[string]match{}}
	return e.found, e.walk(l.path, "")
}

// walk lists the real directory dir, whose path in terms of the pattern is rel.
func (e *expansion) walk(dir, rel string) error {
	key := dir + "\x00" + rel
	if e.pattern.Deep() {
		key = dir
	}
	if e.visited[key] {
		return nil
	}
	e.visited[key] = true
	if err := e.r.stopped(); err != nil {
		return err
	}
	entries, err := e.r.fs.ReadDir(dir)
	if err != nil {
		if !absent(err) {
			e.found[dir] = match{path: dir, kind: Dir, unlistable: true}
		}
		return nil
	}
	for _, ent := range entries {
		if err := e.entry(dir, rel, ent); err != nil {
			return err
		}
	}
	return nil
}

func (e *expansion) entry(dir, rel string, ent Entry) error {
	real, name := child(dir, ent.Name), ent.Name
	if rel != "" {
		name = rel + "/" + ent.Name
	}
	matched := e.pattern.Match(name)
	descend := e.pattern.MayMatchBelow(name)
	switch ent.Kind {
	case Symlink:
		return e.link(real, name, matched, descend)
	case Dir:
		if matched && e.takeDir(real) {
			return nil // hidden as a whole
		}
		if descend || matched {
			return e.walk(real, name)
		}
	default:
		if matched {
			e.found[real] = match{path: real, kind: ent.Kind}
		}
	}
	return nil
}

// takeDir records a matched directory. With "/**" only one that holds
// something counts: the entries are what the pattern names.
func (e *expansion) takeDir(dir string) bool {
	if e.subtree {
		if entries, err := e.r.fs.ReadDir(dir); err == nil && len(entries) == 0 {
			return false
		}
	}
	e.found[dir] = match{path: dir, kind: Dir}
	return true
}

// link follows a symbolic link. What it leads to is denied where it really is;
// a link to the root denies the directory that holds the link instead.
func (e *expansion) link(link, name string, matched, descend bool) error {
	if !matched && !descend {
		return nil
	}
	l, err := e.r.land(link, true)
	switch {
	case err != nil || l.first != "" || l.fileInWay:
		return nil //nolint:nilerr // a link to nothing hides nothing
	case l.closed != "":
		if matched {
			e.found[l.closed] = match{path: l.closed, kind: Dir, unlistable: true}
		}
		return nil
	case matched && l.path == "/":
		e.found[parentOf(link)] = match{path: parentOf(link), kind: Dir, unlistable: true}
		return nil
	case matched && (l.info.Kind != Dir || e.takeDir(l.path)):
		e.found[l.path] = match{path: l.path, kind: l.info.Kind}
		return nil
	case l.info.Kind == Dir && descend && !within(l.path, e.base) && !within(l.path, parentOf(link)):
		return e.walk(l.path, name)
	}
	return nil
}

// expandAllow returns the existing objects that an allow pattern matches. Links
// are matched, never followed: whoever can plant one must not widen the entry.
func (r *resolver) expandAllow(rd reading) ([]string, error) {
	l, err := r.land(rd.dir, true)
	if err != nil || l.info.Kind != Dir || rd.dir == "/" {
		return nil, nil //nolint:nilerr // nothing there to allow
	}
	pattern := glob.Compile(rd.pattern)
	var found []string
	var walk func(dir, rel string) error
	walk = func(dir, rel string) error {
		if err := r.stopped(); err != nil {
			return err
		}
		entries, err := r.fs.ReadDir(dir)
		if err != nil {
			return nil //nolint:nilerr // what cannot be listed cannot be allowed
		}
		for _, ent := range entries {
			name := path.Join(rel, ent.Name)
			switch {
			case pattern.Match(name):
				found = append(found, child(dir, ent.Name))
			case ent.Kind == Dir && pattern.MayMatchBelow(name):
				if err := walk(child(dir, ent.Name), name); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return found, walk(l.path, "")
}

// stopped returns an error once the time for looking is over.
func (r *resolver) stopped() error {
	if err := r.ctx.Err(); err != nil {
		return &Error{Code: "deny_scan_failed", Setting: "filesystem", Reason: fmt.Sprintf("the search of the file system for what must be protected did not end within %s", r.timeout), Err: err}
	}
	return nil
}

// trimSubtree drops the "/**" that means "and everything beneath".
func trimSubtree(s string) string { return strings.TrimSuffix(s, "/**") }
