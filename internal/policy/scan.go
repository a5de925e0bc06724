package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/srt-sandbox/srt/internal/protected"
)

// hitKind says what the search met.
type hitKind uint8

const (
	hitFile hitKind = iota
	hitDir
	hitGit
	hitBare
	hitUnreadable
)

// hit is one object that must be protected.
type hit struct {
	path string
	kind hitKind
}

// scanner looks for existing protected names below the roots. Ignore files have
// no say in it: a command could write one.
type scanner struct {
	fs    FS
	depth int

	most int // directories

	mu   sync.Mutex
	seen map[string]visit
	hits map[hit]bool
	// listings are the entries of the roots; one that cannot be listed has none.
	listings map[string][]Entry
}

// maxSearched bounds the directories, which srt-init must all know.
const maxSearched = 1 << 20

// visit is what is known of a directory: the least depth that it was searched at.
type visit struct {
	depth int
	id    protected.Identity
}

// level is one directory to search. depth is the number of directories between
// the root and the names in it.
type level struct {
	dir   string
	depth int
}

func (r *resolver) scan(roots []string) (*scanner, error) {
	s := &scanner{fs: r.fs, depth: r.in.Config.SearchDepth(), most: maxSearched, seen: map[string]visit{}, hits: map[hit]bool{}, listings: map[string][]Entry{}}
	jobs := make([]level, 0, len(roots))
	for _, root := range roots {
		jobs = append(jobs, level{dir: root})
	}
	return s, r.stopped(crawl(r.ctx, jobs, s.list))
}

func (s *scanner) sorted() []hit {
	all := make([]hit, 0, len(s.hits))
	for h := range s.hits {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b hit) int { return cmp.Or(comparePaths(a.path, b.path), cmp.Compare(a.kind, b.kind)) })
	return all
}

func (s *scanner) take(path string, kind hitKind) {
	s.mu.Lock()
	s.hits[hit{path, kind}] = true
	s.mu.Unlock()
}

// enter reports whether a directory must be searched at a depth.
func (s *scanner) enter(l level) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.seen[l.dir]; ok && v.depth <= l.depth {
		return false, nil
	}
	if s.seen[l.dir] = (visit{depth: l.depth}); len(s.seen) > s.most {
		return false, &Error{Code: "deny_scan_failed", Setting: "mandatoryDenySearchDepth",
			Reason: fmt.Sprintf("there are more than %d directories in which protected names would have to be looked for; lower it, or allow writing in fewer places", s.most)}
	}
	return true, nil
}

// identify adds what a visit found out.
func (s *scanner) identify(dir string, id protected.Identity) {
	s.mu.Lock()
	v := s.seen[dir]
	v.id = id
	s.seen[dir] = v
	s.mu.Unlock()
}

// list searches one directory and returns those beneath it to go on with. What
// is in a root itself is protected by name.
func (s *scanner) list(l level) ([]level, error) {
	if ok, err := s.enter(l); !ok {
		return nil, err
	}
	entries, id, err := s.fs.Visit(l.dir)
	if err != nil {
		if !absent(err) {
			s.take(l.dir, hitUnreadable)
		}
		return nil, nil
	}
	s.identify(l.dir, id)
	switch {
	case l.depth == 0:
		s.mu.Lock()
		s.listings[l.dir] = append([]Entry{}, entries...)
		s.mu.Unlock()
	case looksBare(entries):
		s.take(l.dir, hitBare)
	}
	var next []level
	for _, ent := range entries {
		if l.depth > 0 && strings.HasPrefix(ent.Name, ".") {
			s.judge(l, ent)
		}
		if down := child(l.dir, ent.Name); ent.Kind == Dir && l.depth+1 < s.depth && searched(down, ent.Name) {
			next = append(next, level{dir: down, depth: l.depth + 1})
		}
	}
	return next, nil
}

func searched(path, name string) bool {
	return name != protected.Unsearched && name != ".git" && !fresh(path) && path != kernelTree
}

// judge records a protected name. Directories count one level less deep than
// files, as they have from the first version.
func (s *scanner) judge(l level, ent Entry) {
	path := child(l.dir, ent.Name)
	switch {
	case protected.IsFile(ent.Name):
		s.take(path, hitFile)
	case l.depth > s.depth-2:
	case ent.Name == ".git":
		s.take(path, hitGit)
	case len(protected.Under(ent.Name)) > 0:
		s.take(path, hitDir)
	}
}
