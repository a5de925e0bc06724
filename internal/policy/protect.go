package policy

import (
	"cmp"
	"slices"

	"github.com/srt-sandbox/srt/internal/protected"
)

// addTopLevel makes the top-level directories that hold something protected
// places of their own where "/" itself is writable: pins lie beneath a mount,
// and the root has nothing to lie beneath.
func (r *resolver) addTopLevel() {
	p := r.out
	if !p.writable("/") {
		return
	}
	tops := map[string]bool{}
	for _, pr := range r.protectedPaths() {
		if c := components(pr); len(c) > 1 {
			tops["/"+c[0]] = true
		}
	}
	for top := range tops {
		if _, ok := p.byPath[top]; ok || fresh(top) || top == kernelTree {
			continue
		}
		if info, err := r.fs.Lstat(top); err == nil && info.Kind == Dir {
			s := p.Places[0]
			p.Places = append(p.Places, Place{Path: top, Kind: Dir, Write: true, Dev: info.Dev, Ino: info.Ino, Rule: s.Rule, WriteRule: s.WriteRule})
		}
	}
	slices.SortFunc(p.Places, func(a, b Place) int { return comparePaths(a.Path, b.Path) })
	p.index()
}

// protectedPaths are the paths whose ancestors must not be moved away.
func (r *resolver) protectedPaths() []string {
	var all []string
	for _, place := range r.out.Places {
		if !place.Write {
			all = append(all, place.Path)
		}
	}
	for _, a := range r.absents {
		all = append(all, child(a.Parent, a.Name))
	}
	for l := range r.links {
		all = append(all, l)
	}
	return all
}

// addAbsent keeps the missing names that the command could create.
func (r *resolver) addAbsent() {
	p := r.out
	seen := map[string]int{}
	for _, a := range r.absents {
		if !p.writable(a.Parent) || fresh(a.Parent) {
			continue
		}
		key := child(a.Parent, a.Name)
		if i, ok := seen[key]; ok {
			p.Absent[i].Fold = p.Absent[i].Fold || a.Fold
			p.Absent[i].Read = p.Absent[i].Read || a.Read
			continue
		}
		seen[key] = len(p.Absent)
		p.Absent = append(p.Absent, a)
	}
	slices.SortFunc(p.Absent, func(a, b Absent) int {
		return cmp.Or(comparePaths(a.Parent, b.Parent), cmp.Compare(a.Name, b.Name))
	})
}

// addKept keeps what the command could create once it has made the directory.
func (r *resolver) addKept() {
	for _, k := range r.kept {
		if r.out.writable(parentOf(k.Path)) {
			r.out.Kept = append(r.out.Kept, k)
		}
	}
}

// addStanding keeps protected names from appearing in the directories that were
// searched. The run's own temporary directory is for whatever the run makes.
func (r *resolver) addStanding() {
	dirs := protected.NewDirectories(r.in.Config.SearchDepth())
	for dir, v := range r.searched {
		if v.depth > 0 && r.out.writable(dir) && (r.in.Private == "" || !within(r.in.Private, dir)) {
			dirs.Add(dir, v.id, v.depth)
		}
	}
	r.out.Standing = dirs
}

// addPins pins what the command could move: every directory on the way to a
// protected place whose own directory is writable, and the links themselves.
func (r *resolver) addPins() {
	pinned := map[string]bool{}
	for l := range r.links {
		if r.out.writable(parentOf(l)) {
			r.pin(l, true, pinned)
		}
	}
	climbed := map[string]bool{}
	for _, pr := range r.protectedPaths() {
		for dir := parentOf(pr); dir != "/" && !climbed[dir]; dir = parentOf(dir) {
			climbed[dir] = true
			if _, isPlace := r.out.byPath[dir]; !isPlace && r.out.writable(parentOf(dir)) {
				r.pin(dir, false, pinned)
			}
		}
	}
	slices.SortFunc(r.out.Pins, func(a, b Pin) int { return comparePaths(a.Path, b.Path) })
}

func (r *resolver) pin(path string, link bool, pinned map[string]bool) {
	if pinned[path] || fresh(path) || within(kernelTree, path) {
		return
	}
	info, err := r.fs.Lstat(path)
	if err != nil || (info.Kind == Symlink) != link {
		return
	}
	pinned[path] = true
	r.out.Pins = append(r.out.Pins, Pin{Path: path, Symlink: link, Dev: info.Dev, Ino: info.Ino})
}
