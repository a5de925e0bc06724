package policy

import (
	"slices"
	"strings"

	"github.com/srt-sandbox/srt/internal/protected"
)

// mandatoryDenies protects the names of names.go. No list lifts them.
func (r *resolver) mandatoryDenies() error {
	roots := r.protectedRoots()
	s, err := r.scan(roots)
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := r.protectNames(root, s.listings[root]); err != nil {
			return err
		}
		if err := r.protectRepository(root, s.listings[root]); err != nil {
			return err
		}
	}
	for _, h := range s.sorted() {
		if err := r.judge(h); err != nil {
			return err
		}
	}
	r.searched = s.seen
	return nil
}

// protectedRoots are the directories in which the names are protected even
// where they do not exist: the write roots of the settings, and the working
// directory and the home directory where one of those covers them.
func (r *resolver) protectedRoots() []string {
	roots := slices.Clone(r.roots)
	for _, dir := range []string{r.in.Cwd, r.in.Home} {
		if dir != "" && r.fs.kind(dir) == Dir && slices.ContainsFunc(r.roots, func(root string) bool { return within(root, dir) }) {
			roots = append(roots, dir)
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// protectNames protects the names of one root, whose listing tells which exist;
// without a listing each is looked for.
func (r *resolver) protectNames(root string, listing []Entry) error {
	names := protected.Everywhere()
	if root == r.in.Home {
		names = append(names, r.homeNames(root)...)
	}
	existing := map[string][]string{}
	for _, ent := range listing {
		if strings.HasPrefix(ent.Name, ".") {
			folded := lowerASCII(ent.Name)
			existing[folded] = append(existing[folded], ent.Name)
		}
	}
	for _, name := range names {
		d := denial{rule: builtIn(name), fold: true, found: true}
		first, rest, _ := strings.Cut(name, "/")
		spellings := existing[lowerASCII(first)]
		if listing == nil {
			spellings = []string{first}
		}
		for _, s := range spellings {
			if err := r.denyWrite(child(root, s)+prefixed(rest), d); err != nil {
				return err
			}
		}
		if !slices.Contains(spellings, first) {
			r.forbid(landing{parent: root, first: first, path: child(root, name)}, d.rule, true, false)
		}
	}
	return nil
}

// homeNames are those of which something exists. The directories of the others may
// be made.
func (r *resolver) homeNames(home string) []string {
	var names []string
	for _, name := range protected.InHome() {
		first, rest, _ := strings.Cut(name, "/")
		if rest == "" || r.fs.exists(child(home, first)) {
			names = append(names, name)
		} else {
			r.kept = append(r.kept, Kept{Path: child(home, name), Fold: true, Rule: builtIn(name)})
		}
	}
	return names
}

// judge protects a name that the search met. A directory that is gone since is not
// kept from being made again: the names in it are known by its path.
func (r *resolver) judge(h hit) error {
	if h.kind != hitUnreadable && !r.fs.exists(parentOf(h.path)) {
		return nil
	}
	d := denial{rule: builtIn(baseOf(h.path)), fold: true, found: true}
	switch h.kind {
	case hitUnreadable:
		return r.unreadable(h.path)
	case hitBare:
		return r.protectGitDir(h.path, "")
	case hitGit:
		return r.protectNestedRepository(h.path)
	case hitFile:
		return r.denyWrite(h.path, d)
	}
	for _, rest := range protected.Under(baseOf(h.path)) {
		target := h.path + prefixed(rest)
		if rest != "" && !r.fs.exists(target) {
			continue
		}
		if err := r.denyWrite(target, d); err != nil {
			return err
		}
	}
	return nil
}

// unreadable denies a directory of the caller's own whose contents cannot be
// judged: the command could open it again. Where not even the directory can be
// looked at, the one that keeps it closed is denied.
func (r *resolver) unreadable(dir string) error {
	l, err := r.land(dir, true)
	if err == nil && l.closed != "" {
		l, err = r.land(l.closed, true)
	}
	if err != nil || l.done() || l.info.UID != r.in.UID {
		return nil //nolint:nilerr // gone, or not the caller's to open
	}
	r.protect(l, builtIn("unreadable directory"))
	return nil
}
