package policy

import "slices"

// Concealed is a path that must stay hidden when somebody outside puts another
// object there: that of a hidden or masked place, one that a read deny names and
// that does not exist yet, or that of a symbolic link on the way to either.
type Concealed struct {
	Path string
	// Link is what the symbolic link says that may show there; empty where nothing
	// may.
	Link string
	Rule Rule
}

// unread is a read deny of a path that does not exist.
type unread struct {
	rule   Rule
	locked bool
}

// missing records a path that a read deny names and that does not exist.
func (r *resolver) missing(p string, rule Rule, locked bool) {
	if !r.unread[p].locked {
		r.unread[p] = unread{rule, locked}
	}
}

// pinReadLinks is pinLinks for the links on the way to what a read deny names.
func (r *resolver) pinReadLinks(links []string, rule Rule) {
	r.pinLinks(links)
	for _, l := range links {
		r.readLinks[l] = rule
	}
}

// addConcealed lists what denyRead and credentials hide by path. What srt hides
// itself is no secret.
func (r *resolver) addConcealed() {
	add := func(p, link string, rule Rule) {
		if !fresh(p) && r.out.StateAt(parentOf(p)).View == Host {
			r.out.Concealed = append(r.out.Concealed, Concealed{Path: p, Link: link, Rule: rule})
		}
	}
	for _, place := range r.out.Places {
		if place.View != Host && place.Rule.Setting != builtInSetting {
			add(place.Path, "", place.Rule)
		}
	}
	for p, u := range r.unread {
		if u.locked || !r.unreadAllowed[p] {
			add(p, "", u.rule)
		}
	}
	for l, rule := range r.readLinks {
		if text, err := r.fs.Readlink(l); err == nil {
			add(l, text, rule)
		}
	}
	slices.SortFunc(r.out.Concealed, func(a, b Concealed) int { return comparePaths(a.Path, b.Path) })
}
