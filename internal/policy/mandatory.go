package policy

import (
	"slices"

	"github.com/srt-sandbox/srt/internal/glob"
)

// mandatoryDenies protects the names of names.go. No list lifts them.
func (r *resolver) mandatoryDenies() error {
	scan := &scanner{r: r, depth: r.in.Config.SearchDepth(), seen: map[string]int{}}
	for _, root := range r.protectedRoots() {
		if err := r.protectNames(root); err != nil {
			return err
		}
		if err := r.protectRepository(root); err != nil {
			return err
		}
		if err := scan.dir(root, 0); err != nil {
			return err
		}
	}
	return nil
}

// protectedRoots are the directories in which the names are protected even
// where they do not exist.
func (r *resolver) protectedRoots() []string {
	roots := slices.Clone(r.roots)
	for _, dir := range []string{r.in.Cwd, r.in.Home} {
		if dir != "" && r.underUserRoot(dir) {
			roots = append(roots, dir)
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// underUserRoot leaves the temporary directory and other roots of srt's own out.
func (r *resolver) underUserRoot(p string) bool {
	for _, root := range r.roots {
		if within(root, p) {
			return true
		}
	}
	return false
}

func builtIn(name string) Rule { return Rule{Setting: "built-in protection", Entry: name} }

func (r *resolver) protectNames(root string) error {
	for _, list := range [][]string{protectedFiles[:], protectedDirs[:], protectedSettings[:]} {
		for _, name := range list {
			if err := r.denyWrite(child(root, name), builtIn(name), true); err != nil {
				return err
			}
		}
	}
	if root != r.in.Home {
		return nil
	}
	for _, name := range protectedInHome {
		if info, err := r.fs.Lstat(parentOf(child(root, name))); err == nil && info.Kind == Dir {
			if err := r.denyWrite(child(root, name), builtIn(name), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanner looks for existing protected names below a root. Ignore files have no
// say in it: a command could write one.
type scanner struct {
	r     *resolver
	depth int
	seen  map[string]int // directory → least depth it was searched at
}

// dir searches one directory. depth is the number of directories between the
// root and the names in it; what is in the root itself is protected already.
func (s *scanner) dir(dir string, depth int) error {
	if at, ok := s.seen[dir]; ok && at <= depth {
		return nil
	}
	s.seen[dir] = depth
	if err := s.r.stopped(); err != nil {
		return err
	}
	entries, err := s.r.fs.ReadDir(dir)
	if err != nil {
		return s.unreadable(dir, err)
	}
	if depth > 0 && depth <= s.depth-2 && looksBare(entries) {
		if err := s.r.protectGitDir(dir); err != nil {
			return err
		}
	}
	for _, ent := range entries {
		if err := s.entry(dir, ent, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) entry(dir string, ent Entry, depth int) error {
	path := child(dir, ent.Name)
	if depth > 0 {
		if err := s.judge(path, ent, depth); err != nil {
			return err
		}
	}
	if ent.Kind != Dir || ent.Name == unsearchedDir || ent.Name == ".git" || fresh(path) || within("/sys", path) {
		return nil
	}
	if depth+1 < s.depth {
		return s.dir(path, depth+1)
	}
	return nil
}

// judge protects a name that the search met.
func (s *scanner) judge(path string, ent Entry, depth int) error {
	if protectedFile(ent.Name) {
		return s.r.denyWrite(path, builtIn(ent.Name), true)
	}
	if depth > s.depth-2 {
		return nil
	}
	if ent.Name == ".git" {
		return s.r.protectNestedRepository(path)
	}
	below, found := protectedUnder(ent.Name)
	if !found {
		return nil
	}
	for _, rest := range below {
		target := path
		if rest != "" {
			target = child(path, rest)
			if _, err := s.r.fs.Lstat(target); err != nil {
				continue
			}
		}
		if err := s.r.denyWrite(target, builtIn(ent.Name), true); err != nil {
			return err
		}
	}
	return nil
}

// unreadable denies a directory of the caller's own whose contents cannot be
// judged: the command could open it again.
func (s *scanner) unreadable(dir string, err error) error {
	info, statErr := s.r.fs.Lstat(dir)
	if absent(err) || statErr != nil || info.UID != s.r.in.UID {
		return nil
	}
	return s.r.denyWrite(dir, builtIn("unreadable directory"), false)
}

// WriteWarnings lists the entries of a configuration whose patterns are not
// enforced for files that appear later. It does not look at the disk.
func WriteWarnings(in Input) []string {
	var all []string
	for _, e := range append(slices.Clone(in.Config.Filesystem.AllowWrite), in.Config.Filesystem.DenyWrite...) {
		if !e.Literal && glob.HasMeta(trimSubtree(e.Path)) {
			all = append(all, e.Path)
		}
	}
	return all
}
