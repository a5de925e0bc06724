package policy

import (
	"cmp"
	"slices"
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
func (r *resolver) finish() *Policy {
	if _, ok := r.nodes["/"]; !ok {
		info, _ := r.fs.Lstat("/")
		r.nodes["/"] = &mark{path: "/", info: info}
	}
	marks := make([]*mark, 0, len(r.nodes))
	for _, n := range r.nodes {
		marks = append(marks, n)
	}
	slices.SortFunc(marks, func(a, b *mark) int { return comparePaths(a.path, b.path) })
	r.states = make(map[string]state, len(marks))
	p := r.out
	for _, n := range marks {
		above := r.stateAbove(n.path)
		s, ok := above.step(n)
		if !ok {
			continue // nothing beneath a masked or locked place has a state of its own
		}
		if place := s.place(n); n.path == "/" || above.emitted.changesTo(place) {
			p.Places = append(p.Places, place)
			s.emitted = place
		}
		r.states[n.path] = s
	}
	p.index()
	r.addTopLevel()
	r.addAbsent()
	r.addStanding()
	r.addKept()
	r.addPins()
	r.addConcealed()
	r.keepCreatable()
	r.warnCovered(marks)
	r.warnShown()
	p.index()
	return p
}

// comparePaths orders parents before children and keeps subtrees together.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return cmp.Compare(rank(a[i]), rank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// rank puts the separator before every byte that a name can hold.
func rank(c byte) byte {
	if c == '/' {
		return 0
	}
	return c
}

// stateAbove returns the state that a path inherits.
func (r *resolver) stateAbove(p string) state {
	if p == "/" {
		return state{}
	}
	return r.stateOf(parentOf(p))
}

// stateOf returns the state of a path of which the lists may say nothing.
func (r *resolver) stateOf(p string) state {
	for {
		if s, ok := r.states[p]; ok {
			return s
		}
		if p == "/" {
			return state{}
		}
		p = parentOf(p)
	}
}

// step applies what the lists say about one path to the state above it.
func (s state) step(n *mark) (state, bool) {
	if n.own && (n.deny || s.view != Host) {
		return state{view: Host, rule: builtIn(n.path), deny: true, denyRule: builtIn(n.path), emitted: s.emitted}, true
	}
	if s.view == Masked || s.locked {
		return s, false
	}
	if n.writeDeny && !s.deny {
		s.deny, s.denyRule = true, n.writeDenyRule
	}
	s.look(n)
	// A convenience is dropped where it lies in something hidden.
	if n.root && (!n.weak || s.view == Host) {
		s.root, s.rootRule = true, n.rootRule
	}
	return s, true
}

// look decides what is visible. At one path an allow undoes the deny of a
// directory; that of a file yields only to an allowRead of the very file.
func (s *state) look(n *mark) {
	dir := n.info.Kind == Dir
	shown := n.allowRead || n.root && !n.weak && (dir || !n.deny)
	switch {
	case n.deny && n.locked:
		s.locked, s.rule = true, n.denyRule
		s.hide(dir)
	case shown:
		if s.rule = n.allowRule; !n.allowRead {
			s.rule = n.rootRule
		}
		s.view = Host
	case n.deny:
		s.rule = n.denyRule
		s.hide(dir)
	}
}

// hide: what lies in a hidden directory is gone already.
func (s *state) hide(dir bool) {
	switch {
	case s.view == Hidden:
	case dir:
		s.view = Hidden
	default:
		s.view = Masked
	}
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

// changesTo reports whether a deeper place must be listed. In a hidden directory
// there is nothing that a deeper rule could act on until something is shown
// again, so whether it takes writes is no difference.
func (p Place) changesTo(deeper Place) bool {
	return p.View != deeper.View || p.Write != deeper.Write
}

// index rebuilds the lookup tables.
func (p *Policy) index() {
	p.byPath = make(map[string]int, len(p.Places))
	for i, place := range p.Places {
		p.byPath[place.Path] = i
	}
	p.ways = map[string]bool{}
	for _, place := range p.Places {
		p.addWays(place.Path)
	}
	p.pins = make(map[string]bool, len(p.Pins))
	for _, pin := range p.Pins {
		p.pins[pin.Path] = true
	}
	p.absent, p.folded = make(map[string]Rule, len(p.Absent)), map[string]Rule{}
	for _, a := range p.Absent {
		p.absent[child(a.Parent, a.Name)] = a.Rule
		if a.Fold {
			p.folded[child(a.Parent, lowerASCII(a.Name))] = a.Rule
		}
	}
	p.creatable, p.toCreatable = map[string]Rule{}, map[string]Rule{}
	for _, c := range p.Creatable {
		p.creatable[c.Path] = c.Rule
		for dir := parentOf(c.Path); beneath(c.Parent, dir); dir = parentOf(dir) {
			p.toCreatable[dir] = c.Rule
		}
	}
}

// addWays records the directories between a place and the hidden directory that
// it lies in.
func (p *Policy) addWays(path string) {
	if path == "/" || p.StateAt(parentOf(path)).View != Hidden {
		return
	}
	for dir := parentOf(path); !p.ways[dir]; dir = parentOf(dir) {
		if _, isPlace := p.byPath[dir]; isPlace {
			return
		}
		p.ways[dir] = true
	}
}

// kernelTree is the kernel's own, which stays as it is even where the whole
// tree is writable.
const kernelTree = "/sys"

// StateAt returns the place that decides about a real path.
func (p *Policy) StateAt(path string) Place {
	asked := path
	for {
		if i, ok := p.byPath[path]; ok {
			place := p.Places[i]
			if path == "/" && within(kernelTree, asked) {
				return Place{Path: kernelTree, Kind: Dir, Rule: place.Rule}
			}
			return place
		}
		if path == "/" {
			return Place{Path: "/", Kind: Dir}
		}
		path = parentOf(path)
	}
}

// writable reports whether names can be created in a directory.
func (p *Policy) writable(dir string) bool { return p.StateAt(dir).Write }
