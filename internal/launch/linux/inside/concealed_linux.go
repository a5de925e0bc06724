package inside

import (
	"path"
	"strings"
)

// concealed is a path at which nothing of the host may show, or a directory on the
// way to one.
type concealed struct {
	name, path string
	kept       bool   // nothing may show here
	link       string // but this symbolic link, if it is not empty
	planned    bool   // the set-up hid it as a directory, and it was not looked at since
	mask       object // what hides it since then, unless it is a blank object
	told       bool
	below      []*concealed
	byName     map[string][]*concealed // in lower case
}

func newConcealed(name, full string) *concealed {
	return &concealed{name: name, path: full, byName: map[string][]*concealed{}}
}

// add enters a path beneath the root directory.
func (n *concealed) add(p ConcealedPath) *concealed {
	for _, name := range strings.Split(strings.Trim(p.Path, "/"), "/") {
		n = n.child(name)
	}
	n.kept, n.link = true, p.Link
	return n
}

func (n *concealed) child(name string) *concealed {
	for _, next := range n.named(name) {
		if next.name == name {
			return next
		}
	}
	next := newConcealed(name, path.Join("/", n.path, name))
	key := strings.ToLower(name)
	n.byName[key] = append(n.byName[key], next)
	n.below = append(n.below, next)
	return next
}

// named returns those that a name in this directory may mean: some file systems
// ignore case.
func (n *concealed) named(name string) []*concealed { return n.byName[strings.ToLower(name)] }
