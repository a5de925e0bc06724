// Package linux confines a command with namespaces, a mount plan, a seccomp
// filter and a small supervisor (srt-init) that is process 1 inside.
//
// A run has two halves. The host half, this package, creates the namespaces,
// sends a launch spec and receives the listening sockets. The inside half,
// package inside, is the same binary, re-executed.
package linux

import (
	"path"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

// NewPlan translates a resolved policy. The policy already states the final
// condition of every place, so the translation is one step a place, parents
// first; pins come before everything because they belong to the lowest layer.
func NewPlan(p *policy.Policy) inside.Plan {
	plan := make(inside.Plan, 0, len(p.Pins)+len(p.Places))
	for _, pin := range p.Pins {
		plan = append(plan, inside.Op{Kind: inside.OpPin, Path: pin.Path, Symlink: pin.Symlink, Dir: !pin.Symlink, Dev: pin.Dev, Ino: pin.Ino})
	}
	above := ancestors(p.Places)
	for _, place := range p.Places {
		if !fixedMount(place.Path) {
			plan = append(plan, opFor(place, above[place.Path]))
		}
	}
	return plan
}

func opFor(p policy.Place, nested bool) inside.Op {
	op := inside.Op{Path: p.Path, Write: p.Write, Dir: p.Kind == policy.Dir, Dev: p.Dev, Ino: p.Ino}
	switch {
	case p.Path == "/":
		op.Kind = inside.OpBase
	case p.View == policy.Hidden:
		op.Kind, op.Write, op.Nested, op.Dir = inside.OpHideDir, p.Scratch, nested, true
	case p.View == policy.Masked:
		op.Kind, op.Write = inside.OpHideFile, false
	default:
		op.Kind = inside.OpBind
	}
	return op
}

// ancestors returns every directory that has a place beneath it.
func ancestors(places []policy.Place) map[string]bool {
	above := make(map[string]bool, len(places))
	for _, p := range places {
		for dir := path.Dir(p.Path); !above[dir]; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	return above
}

// fixedMount reports whether p belongs to a part of the tree that every sandbox
// gets fresh, where no rule may act.
func fixedMount(p string) bool {
	for _, d := range []string{"/dev", "/proc"} {
		if p == d || inside.Beneath(d, p) {
			return true
		}
	}
	return path.Clean(p) != p
}
