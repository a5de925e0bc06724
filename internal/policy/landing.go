package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxLinks is the kernel's limit of symbolic links on one path.
const maxLinks = 40

var errLinkCycle = errors.New("too many symbolic links, or a cycle of them")

// landing is where a path really leads.
type landing struct {
	path string // without links; for a missing object the place where it would be
	info Info   // Kind is Missing for a missing object
	// parent and first are, for a missing object, the deepest existing
	// directory and the first missing name.
	parent, first string
	// upward says that ".." follows the missing name, so that path does not lie
	// beneath it.
	upward bool
	// links are the places of the symbolic links that were followed.
	links []string
	// closed is a directory on the way that cannot be searched; path is then
	// where the way ended.
	closed string
	// fileInWay is a non-directory in the middle of the path.
	fileInWay bool
}

// circular reports whether a landing that failed went round in a circle, rather
// than along a chain that is too long.
func (l landing) circular() bool {
	sorted := slices.Sorted(slices.Values(l.links))
	return len(slices.Compact(sorted)) < len(l.links)
}

// done reports that the way ended before an object was found.
func (l *landing) done() bool { return l.closed != "" || l.first != "" || l.fileInWay }

// lookups is the part of FS that following a path needs.
type lookups interface {
	Lstat(path string) (Info, error)
	Readlink(path string) (string, error)
}

func (r *resolver) land(p string, followLast bool) (landing, error) {
	return land(r.fs, p, followLast)
}

// land follows p as the kernel would. Missing names at the end are kept, so
// that a dangling link leads to the name it would create. With an error the
// landing holds the links seen so far.
func land(fs lookups, p string, followLast bool) (landing, error) {
	l := landing{path: "/"}
	rest := components(p)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case ".":
			continue
		case "..":
			l.path = parentOf(l.path)
			continue
		}
		more, err := l.step(fs, name, rest, followLast)
		if err != nil || l.done() {
			return l, err
		}
		rest = more
	}
	info, err := fs.Lstat(l.path)
	if err != nil {
		l.closed = parentOf(l.path)
		return l, nil
	}
	l.info = info
	return l, nil
}

// step moves by one name and returns what is still to go.
func (l *landing) step(fs lookups, name string, rest []string, followLast bool) ([]string, error) {
	here := child(l.path, name)
	info, err := fs.Lstat(here)
	switch {
	case err != nil && absent(err):
		l.parent, l.first, l.upward = l.path, name, slices.Contains(rest, "..")
		l.path = path.Clean(here + "/" + strings.Join(rest, "/"))
		return nil, nil
	case err != nil:
		l.closed, l.path = l.path, here
		return nil, nil
	case info.Kind == Symlink && (len(rest) > 0 || followLast):
		if len(l.links) >= maxLinks {
			return nil, fmt.Errorf("%s: %w", here, errLinkCycle)
		}
		target, err := fs.Readlink(here)
		if err != nil {
			l.closed, l.path = l.path, here
			return nil, nil
		}
		l.links = append(l.links, here)
		if strings.HasPrefix(target, "/") {
			l.path = "/"
		}
		return append(components(target), rest...), nil
	case info.Kind != Dir && len(rest) > 0:
		l.path, l.info, l.fileInWay = here, info, true
		return nil, nil
	}
	l.path = here
	return rest, nil
}
