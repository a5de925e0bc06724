package hostname

import (
	"iter"
	"net/netip"
	"strings"
)

// Set is an immutable list of patterns with an index: a lookup costs as much as
// the host has labels, however long the list is.
type Set struct {
	patterns  []Pattern
	exact     index
	wildcards index // by the part after "*."
	all       index // "*" entries, by the empty name
}

// index finds the entries for a host. Its values are in the map itself, so that a
// long list costs the garbage collector little.
type index map[string]places

// places holds the lowest list index of the entries for one host.
type places struct {
	everyPort int // negative without such an entry
	byPort    map[int]int
}

func (x index) add(p Pattern, i int) {
	at, known := x[p.host]
	if !known {
		at.everyPort = -1
	}
	_, taken := at.byPort[p.port]
	switch {
	case p.port == 0 && at.everyPort < 0:
		at.everyPort = i
	case p.port != 0 && !taken:
		if at.byPort == nil {
			at.byPort = map[int]int{}
		}
		at.byPort[p.port] = i
	}
	x[p.host] = at
}

// lowest returns the lower of best and the index of an entry for this host and
// port; best is negative when there is none yet.
func (x index) lowest(best int, host string, port int) int {
	at, known := x[host]
	if !known {
		return best
	}
	if at.everyPort >= 0 && (best < 0 || at.everyPort < best) {
		best = at.everyPort
	}
	if i, ok := at.byPort[port]; ok && (best < 0 || i < best) {
		best = i
	}
	return best
}

// NewSet indexes the patterns. Their order decides which of several matching
// ones is reported.
func NewSet(patterns []Pattern) *Set {
	s := &Set{patterns: append([]Pattern(nil), patterns...), exact: index{}, wildcards: index{}, all: index{}}
	for i, p := range s.patterns {
		switch p.kind {
		case exact:
			s.exact.add(p, i)
		case wildcard:
			s.wildcards.add(p, i)
		case everything:
			s.all.add(p, i)
		}
	}
	return s
}

// Match returns the lowest index of a pattern that matches. A nil Set matches nothing.
func (s *Set) Match(host string, port int) (int, bool) {
	if s == nil {
		return 0, false
	}
	best := s.all.lowest(-1, "", port)
	best = s.exact.lowest(best, host, port)
	if len(s.wildcards) > 0 && !isAddress(host) {
		rest := host
		for more := true; more; {
			if _, rest, more = strings.Cut(rest, "."); more {
				best = s.wildcards.lowest(best, rest, port)
			}
		}
	}
	return max(best, 0), best >= 0
}

// MatchAnyPort is Match for a host of which the port is not known: any does.
func (s *Set) MatchAnyPort(host string) (int, bool) {
	if s == nil {
		return 0, false
	}
	best := -1
	consider := func(x index, host string) {
		p, known := x[host]
		if !known {
			return
		}
		if p.everyPort >= 0 && (best < 0 || p.everyPort < best) {
			best = p.everyPort
		}
		for _, i := range p.byPort {
			if best < 0 || i < best {
				best = i
			}
		}
	}
	consider(s.all, "")
	consider(s.exact, host)
	if len(s.wildcards) > 0 && !isAddress(host) {
		rest := host
		for more := true; more; {
			if _, rest, more = strings.Cut(rest, "."); more {
				consider(s.wildcards, rest)
			}
		}
	}
	return max(best, 0), best >= 0
}

// Exact yields the host and the port, 0 for every port, of each entry that names
// exactly one host.
func (s *Set) Exact() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		if s == nil {
			return
		}
		for _, p := range s.patterns {
			if p.kind == exact && !yield(p.host, p.port) {
				return
			}
		}
	}
}

// Pattern returns the pattern at an index.
func (s *Set) Pattern(i int) Pattern { return s.patterns[i] }

// Addr returns the lowest index of a pattern that is this address, for a port.
// A zone is ignored. A nil Set has no addresses.
func (s *Set) Addr(a netip.Addr, port int) (int, bool) {
	if s == nil || !a.IsValid() {
		return 0, false
	}
	// No name is spelled like an address, so what is found is one.
	best := s.exact.lowest(-1, a.WithZone("").Unmap().String(), port)
	return max(best, 0), best >= 0
}
