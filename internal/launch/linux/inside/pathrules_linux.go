package inside

import "path"

// pathRules answers for real paths where no mount does: it holds the policy's
// states and finds the one that applies.
type pathRules struct {
	states    map[string]PathState
	pins      map[string]bool
	creatable []CreatablePath
	// gaps are the directories above a state whose reading differs from theirs.
	gaps map[string]bool
	// below lists, for each directory, the children that lead to a state.
	below map[string][]string
	// missing says that a read is denied of something that does not exist. The guard
	// alone refuses it: were it a gap, no program made beside it could be run.
	missing bool
}

func newPathRules(l *LandlockSpec, creatable []CreatablePath) *pathRules {
	p := &pathRules{states: map[string]PathState{}, pins: map[string]bool{}, creatable: creatable,
		gaps: map[string]bool{}, below: map[string][]string{}}
	for _, s := range l.States {
		p.states[s.Path] = s
	}
	for _, pin := range l.Pins {
		p.pins[pin] = true
	}
	for _, s := range l.States {
		p.missing = p.missing || s.Missing
		if s.Missing {
			continue
		}
		p.chain(s.Path)
		if s.Path != "/" && s.Read != p.at(path.Dir(s.Path)).Read {
			p.open(s.Path)
		}
	}
	return p
}

// chain records the way down to a path.
func (p *pathRules) chain(name string) {
	for name != "/" {
		parent := path.Dir(name)
		for _, known := range p.below[parent] {
			if known == name {
				return
			}
		}
		p.below[parent] = append(p.below[parent], name)
		name = parent
	}
}

// open marks every directory above a path that reads differently.
func (p *pathRules) open(name string) {
	for name != "/" {
		name = path.Dir(name)
		p.gaps[name] = true
	}
}

// at returns the state that applies to a path.
func (p *pathRules) at(name string) PathState {
	for {
		if s, ok := p.states[name]; ok {
			return s
		}
		if name == "/" {
			return PathState{Path: "/"}
		}
		name = path.Dir(name)
	}
}

// gap reports whether something beneath a directory reads differently from it.
func (p *pathRules) gap(dir string) bool { return p.gaps[dir] }

// hasGaps reports whether any read is denied.
func (p *pathRules) hasGaps() bool { return len(p.gaps) > 0 || p.missing || !p.at("/").Read }

// mayRead decides about opening a real path for reading.
func (p *pathRules) mayRead(name string) (PathState, bool) {
	s := p.at(name)
	return s, s.Read
}

// mayChange decides about the contents and metadata of what exists at a path.
func (p *pathRules) mayChange(name string) (PathState, bool) {
	s := p.at(name)
	return s, s.Write || p.created(name)
}

// mayName decides about making, removing or giving away the name at a path.
// States and pins must stay where they are.
func (p *pathRules) mayName(name string) (PathState, bool) {
	_, fixed := p.states[name]
	s := p.at(path.Dir(name))
	if name == "/" || fixed || p.pins[name] {
		if fixed {
			s = p.states[name]
		}
		return s, false
	}
	return s, s.Write || p.toCreate(name) || p.created(path.Dir(name))
}

// created reports whether a path lies in or at an allowWrite entry that did not
// exist at the start.
func (p *pathRules) created(name string) bool {
	for _, c := range p.creatable {
		if name == c.Path || Beneath(c.Path, name) {
			return true
		}
	}
	return false
}

// toCreate reports whether a path is or leads to such an entry.
func (p *pathRules) toCreate(name string) bool {
	for _, c := range p.creatable {
		if name == c.Path || Beneath(name, c.Path) && Beneath(c.Parent, name) {
			return true
		}
	}
	return false
}
