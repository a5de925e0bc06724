package hostname

import (
	"net/netip"
	"strings"
)

// Set is an immutable list of patterns with an index: a lookup costs as much as
// the host has labels, however long the list is.
type Set struct {
	patterns  []Pattern
	exact     map[string][]int
	wildcards map[string][]int
	all       []int
}

// NewSet indexes the patterns. Their order decides which of several matching
// ones is reported.
func NewSet(patterns []Pattern) *Set {
	s := &Set{patterns: append([]Pattern(nil), patterns...), exact: map[string][]int{}, wildcards: map[string][]int{}}
	for i, p := range s.patterns {
		switch p.kind {
		case exact:
			s.exact[p.host] = append(s.exact[p.host], i)
		case wildcard:
			s.wildcards[p.host] = append(s.wildcards[p.host], i)
		case everything:
			s.all = append(s.all, i)
		}
	}
	return s
}

// Match returns the lowest index of a pattern that matches. A nil Set matches nothing.
func (s *Set) Match(host string, port int) (int, bool) {
	if s == nil {
		return 0, false
	}
	best := -1
	consider := func(indexes []int) {
		for _, i := range indexes {
			if (best < 0 || i < best) && (s.patterns[i].port == 0 || s.patterns[i].port == port) {
				best = i
			}
		}
	}
	consider(s.all)
	consider(s.exact[host])
	if !isAddress(host) {
		for rest := host; ; {
			_, after, more := strings.Cut(rest, ".")
			if !more {
				break
			}
			consider(s.wildcards[after])
			rest = after
		}
	}
	return max(best, 0), best >= 0
}

// Len returns the number of patterns.
func (s *Set) Len() int { return len(s.patterns) }

// Pattern returns the pattern at an index.
func (s *Set) Pattern(i int) Pattern { return s.patterns[i] }

// Addr returns the lowest index of a pattern that is this address, for a port.
func (s *Set) Addr(a netip.Addr, port int) (int, bool) {
	if s == nil {
		return 0, false
	}
	for _, i := range s.exact[a.Unmap().String()] {
		if p := s.patterns[i]; p.isAddr && (p.port == 0 || p.port == port) {
			return i, true
		}
	}
	return 0, false
}
