package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/srt-sandbox/srt/internal/glob"
)

// match is one object that a pattern names.
type match struct {
	path string // real
	// link is the symbolic link that matched and led to path, if one did.
	link string
	// closed marks a directory whose contents could not be judged; it is denied
	// whole, and nothing beneath it is shown again.
	closed bool
}

// expansion searches a directory for the objects that a deny pattern names now.
// It follows links to directories, because what is behind them is reached by a
// matching name, but never back up the tree.
type expansion struct {
	r       *resolver
	pattern *glob.Pattern
	subtree bool
	base    string // real path of the search's start
	// carved are paths that other entries show again inside what matches. Only
	// there does it matter what matches beneath a match.
	carved []string

	mu      sync.Mutex
	visited map[step]bool
	found   map[match]bool
}

// step is one directory to list, at a place in the pattern. With all set it
// lies beneath a directory that matched with "/**", where everything matches.
type step struct {
	dir string
	at  glob.Place
	all bool
}

// expand returns the matches of a deny pattern below a literal directory.
func (r *resolver) expand(rd reading, rule Rule, carved []string) ([]match, error) {
	l, err := r.land(rd.dir, true)
	switch {
	case err != nil || l.first != "" || l.fileInWay:
		return nil, nil //nolint:nilerr // nothing below a directory that is not there
	case l.closed != "":
		return []match{{path: l.closed, closed: true}}, nil
	case l.path == "/":
		return nil, &Error{Code: "unbounded_pattern", Setting: rule.Setting, Entry: rule.Entry,
			Reason: "a pattern that begins in the root directory would need a search of the whole machine; start it with a directory"}
	}
	e := &expansion{r: r, pattern: glob.Compile(rd.pattern), subtree: rd.subtree, base: l.path, carved: carved,
		visited: map[step]bool{}, found: map[match]bool{}}
	if err := crawl(r.ctx, []step{{dir: l.path, at: e.pattern.Start()}}, e.list); err != nil {
		return nil, r.stopped(err)
	}
	all := make([]match, 0, len(e.found))
	for m := range e.found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b match) int { return cmp.Or(comparePaths(a.path, b.path), cmp.Compare(a.link, b.link)) })
	return all, nil
}

func (e *expansion) take(m match) {
	e.mu.Lock()
	e.found[m] = true
	e.mu.Unlock()
}

// list judges the entries of one directory and returns those to go on with.
func (e *expansion) list(s step) ([]step, error) {
	e.mu.Lock()
	seen := e.visited[s]
	e.visited[s] = true
	e.mu.Unlock()
	if seen {
		return nil, nil
	}
	entries, err := e.r.fs.ReadDir(s.dir)
	if err != nil {
		if !absent(err) {
			e.take(match{path: s.dir, closed: true})
		}
		return nil, nil
	}
	var next []step
	for _, ent := range entries {
		if s.all {
			next = append(next, e.within(s, ent)...)
		} else {
			next = append(next, e.entry(s, ent)...)
		}
	}
	return next, nil
}

// entry judges a name by the pattern.
func (e *expansion) entry(s step, ent Entry) []step {
	matched := e.pattern.MatchIn(s.at, ent.Name)
	if ent.Kind == Dir || ent.Kind == Symlink {
		at, more := e.pattern.Enter(s.at, ent.Name)
		path := child(s.dir, ent.Name)
		if ent.Kind == Symlink {
			return e.link(path, at, matched, more)
		}
		return e.dir(match{path: path}, at, matched, more)
	}
	if matched && !e.subtree {
		e.take(match{path: child(s.dir, ent.Name)})
	}
	return nil
}

// dir takes a directory that matched, as a whole. With "/**" only one that
// holds something counts: its entries are what the pattern names.
func (e *expansion) dir(m match, at glob.Place, matched, more bool) []step {
	if !matched {
		if more {
			return []step{{dir: m.path, at: at}}
		}
		return nil
	}
	if e.subtree && e.empty(m.path) {
		return nil
	}
	e.take(m)
	switch {
	case !e.carvedIn(m.path):
		return nil
	case e.subtree:
		return []step{{dir: m.path, all: true}}
	case more:
		return []step{{dir: m.path, at: at}}
	}
	return nil
}

func (e *expansion) empty(dir string) bool {
	entries, err := e.r.fs.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// within judges an entry beneath a directory that is hidden as a whole: each is
// a match of its own and stays hidden where another entry shows its directory.
func (e *expansion) within(s step, ent Entry) []step {
	path := child(s.dir, ent.Name)
	shown := slices.ContainsFunc(e.carved, func(c string) bool { return within(c, path) })
	switch {
	case shown && ent.Kind == Symlink:
		if l, err := e.r.land(path, true); err == nil && !l.done() && l.path != "/" {
			e.take(match{path: l.path, link: path})
		}
	case shown:
		e.take(match{path: path})
	}
	if ent.Kind == Dir && e.carvedIn(path) {
		return []step{{dir: path, all: true}}
	}
	return nil
}

func (e *expansion) carvedIn(dir string) bool {
	return slices.ContainsFunc(e.carved, func(c string) bool { return within(dir, c) })
}

// link follows a symbolic link. What it leads to is denied where it really is;
// a link to the root denies the directory that holds the link instead.
func (e *expansion) link(link string, at glob.Place, matched, more bool) []step {
	if !matched && !more {
		return nil
	}
	l, err := e.r.land(link, true)
	switch {
	case err != nil || l.first != "" || l.fileInWay:
		return nil // a link to nothing hides nothing
	case l.closed != "":
		// A command may have closed the way to what matches behind the link.
		e.take(match{path: l.closed, link: link, closed: true})
		return nil
	case matched && l.path == "/":
		e.take(match{path: parentOf(link), closed: true})
		return nil
	case l.info.Kind != Dir:
		if matched && !e.subtree {
			e.take(match{path: l.path, link: link})
		}
		return nil
	}
	upward := within(l.path, e.base) || within(l.path, parentOf(link))
	return e.dir(match{path: l.path, link: link}, at, matched, more && !upward)
}

// expandAllow returns the existing objects that an allow pattern names. Links
// are matched, never followed: whoever can plant one must not widen the entry.
func (r *resolver) expandAllow(rd reading) ([]string, error) {
	p := glob.Compile(rd.pattern)
	var mu sync.Mutex
	var found []string
	err := crawl(r.ctx, []step{{dir: rd.dir, at: p.Start()}}, func(s step) (next []step, _ error) {
		entries, err := r.fs.ReadDir(s.dir)
		if err != nil {
			return nil, nil //nolint:nilerr // what cannot be listed cannot be allowed
		}
		for _, ent := range entries {
			path := child(s.dir, ent.Name)
			if p.MatchIn(s.at, ent.Name) && (ent.Kind == Dir || !rd.subtree) {
				mu.Lock()
				found = append(found, path)
				mu.Unlock()
			} else if at, more := p.Enter(s.at, ent.Name); more && ent.Kind == Dir {
				next = append(next, step{dir: path, at: at})
			}
		}
		return next, nil
	})
	slices.Sort(found)
	return found, r.stopped(err)
}

// stopped turns the end of the time for looking into an error that says so.
func (r *resolver) stopped(err error) error {
	if err == nil || r.ctx.Err() == nil {
		return err
	}
	return &Error{Code: "deny_scan_failed", Setting: "filesystem", Err: r.ctx.Err(),
		Reason: fmt.Sprintf("the search of the file system for what must be protected did not end within %s", r.timeout)}
}
