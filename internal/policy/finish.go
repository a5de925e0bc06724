package policy

import (
	"cmp"
	"slices"
	"strings"
)

// state is what holds at a path and beneath it.
type state struct {
	view           View
	root, deny     bool
	locked         bool
	rule, rootRule Rule
	denyRule       Rule
	// emitted is the last place on the way here that the policy lists.
	emitted Place
}

func (s state) write() bool { return s.view == Host && s.root && !s.deny }

// finish computes, from what the lists say, the final state of every place.
// The marks are visited parents first; each inherits from the nearest one above.
func (r *resolver) finish() (*Policy, error) {
	marks := make([]*mark, 0, len(r.nodes)+1)
	if _, ok := r.nodes["/"]; !ok {
		info, _ := r.fs.Lstat("/")
		r.nodes["/"] = &mark{path: "/", info: info}
	}
	for _, n := range r.nodes {
		marks = append(marks, n)
	}
	slices.SortFunc(marks, func(a, b *mark) int { return comparePaths(a.path, b.path) })
	states := make(map[string]state, len(marks))
	p := r.out
	for _, n := range marks {
		above := nearestState(states, n.path)
		s, ok := above.step(n)
		if !ok {
			continue // nothing beneath a masked or locked place has a state of its own
		}
		// Inside a hidden directory there is nothing that could be denied again.
		stillHidden := above.view == Hidden && s.view == Hidden
		place := s.place(n)
		if n.path == "/" || !stillHidden && differs(above.emitted, place) {
			p.Places = append(p.Places, place)
			s.emitted = place
		}
		states[n.path] = s
	}
	p.index()
	r.addTopLevel()
	r.addAbsent()
	r.addPins()
	r.keepCreatable()
	p.index()
	return p, nil
}

// comparePaths orders parents before children and keeps subtrees together.
func comparePaths(a, b string) int {
	return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

func nearestState(states map[string]state, p string) state {
	for p != "/" {
		p = parentOf(p)
		if s, ok := states[p]; ok {
			return s
		}
	}
	return state{}
}

// step applies what the lists say about one path to the state above it.
func (s state) step(n *mark) (state, bool) {
	if s.view == Masked || s.locked {
		return s, false
	}
	if n.root {
		s.root, s.rootRule = true, n.rootRule
	}
	if n.writeDeny && !s.deny {
		s.deny, s.denyRule = true, n.writeDenyRule
	}
	restore := n.allowRead || n.root && !n.weak
	if n.deny && n.info.Kind != Dir {
		restore = n.allowRead // a single file is shown only by its own name
	}
	inHidden := s.view == Hidden
	switch {
	case n.deny && n.locked:
		s.locked, s.rule = true, n.denyRule
		if !inHidden {
			s.view = hiddenView(n.info.Kind)
		}
	case n.deny && !restore && !inHidden:
		s.view, s.rule = hiddenView(n.info.Kind), n.denyRule
	case restore:
		s.view = Host
		s.rule = n.rootRule
		if n.allowRead {
			s.rule = n.allowRule
		}
	}
	return s, true
}

func hiddenView(k Kind) View {
	if k == Dir {
		return Hidden
	}
	return Masked
}

func (s state) place(n *mark) Place {
	p := Place{Path: n.path, Kind: n.info.Kind, View: s.view, Write: s.write(), Dev: n.info.Dev, Ino: n.info.Ino, Rule: s.rule}
	p.Scratch = s.view == Hidden && s.root && !s.deny
	switch {
	case s.deny:
		p.WriteRule = s.denyRule
	case s.root:
		p.WriteRule = s.rootRule
	}
	return p
}

func differs(above, p Place) bool {
	return above.View != p.View || above.Write != p.Write || above.Scratch != p.Scratch
}

// index rebuilds the lookup tables.
func (p *Policy) index() {
	p.byPath = make(map[string]int, len(p.Places))
	for i, place := range p.Places {
		p.byPath[place.Path] = i
	}
	p.missing = make(map[string]int, len(p.Absent))
	for i, a := range p.Absent {
		p.missing[absentKey(a.Parent, a.Name)] = i
	}
}

// absentKey folds case for every name; names that do not fold are compared again.
func absentKey(dir, name string) string { return child(dir, strings.ToLower(name)) }

// StateAt returns the place that decides about a real path.
func (p *Policy) StateAt(path string) Place {
	for {
		if i, ok := p.byPath[path]; ok {
			return p.Places[i]
		}
		if path == "/" {
			return Place{Path: "/", Kind: Dir}
		}
		path = parentOf(path)
	}
}

// writable reports whether names can be created in a directory.
func (p *Policy) writable(dir string) bool {
	s := p.StateAt(dir)
	return s.Write && s.View == Host
}

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
		if _, ok := p.byPath[top]; ok {
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
		if !p.writable(a.Parent) {
			continue
		}
		key := child(a.Parent, a.Name)
		if i, ok := seen[key]; ok {
			p.Absent[i].Fold = p.Absent[i].Fold || a.Fold
			continue
		}
		seen[key] = len(p.Absent)
		p.Absent = append(p.Absent, a)
	}
	slices.SortFunc(p.Absent, func(a, b Absent) int {
		return cmp.Or(comparePaths(a.Parent, b.Parent), cmp.Compare(a.Name, b.Name))
	})
}

// addPins pins what the command could move: every directory on the way to a
// protected place whose own directory is writable, and the links themselves.
func (r *resolver) addPins() {
	p := r.out
	pinned := map[string]bool{}
	for l := range r.links {
		if p.writable(parentOf(l)) {
			r.pin(l, true, pinned)
		}
	}
	for _, pr := range r.protectedPaths() {
		for dir := parentOf(pr); dir != "/"; dir = parentOf(dir) {
			if _, isPlace := p.byPath[dir]; isPlace || !p.writable(parentOf(dir)) {
				continue
			}
			r.pin(dir, false, pinned)
		}
	}
	slices.SortFunc(p.Pins, func(a, b Pin) int { return comparePaths(a.Path, b.Path) })
}

func (r *resolver) pin(path string, link bool, pinned map[string]bool) {
	if pinned[path] || fresh(path) {
		return
	}
	info, err := r.fs.Lstat(path)
	if err != nil || (info.Kind == Symlink) != link {
		return
	}
	pinned[path] = true
	r.out.Pins = append(r.out.Pins, Pin{Path: path, Symlink: link, Dev: info.Dev, Ino: info.Ino})
}

// keepCreatable drops the missing allowWrite entries that need no help, because
// the command can create them anyway, and those that a deny covers.
func (r *resolver) keepCreatable() {
	p := r.out
	p.Creatable = slices.DeleteFunc(p.Creatable, func(c Creatable) bool {
		s := p.StateAt(c.Parent)
		denied := s.WriteRule.Setting != "" && !s.Write
		return p.writable(c.Parent) || s.View != Host || denied || fresh(c.Parent) || within("/sys", c.Parent)
	})
}
