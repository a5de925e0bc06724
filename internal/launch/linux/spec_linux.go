package linux

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

// specFor translates a request. The policy states what must hold; the plan and
// the guarded names are its two halves.
func specFor(r launch.Request) *inside.Spec {
	names := guardedNames(r.Policy)
	s := &inside.Spec{
		Plan:   append(NewPlan(r.Policy), otherProcesses()...),
		Filter: inside.FilterOptions{UnixSockets: r.UnixSockets, NestedNamespaces: r.NestedNamespaces},
		Names:  names, Standing: r.Policy.Standing.Encode(),
		Path: r.Path, Args: r.Args, Env: r.Env, Dir: r.Dir, Home: r.Home, Ports: r.Ports, Private: r.Private, NullFD: r.NullFD,
		Published: r.Published,
	}
	for _, c := range r.Policy.Concealed {
		s.Concealed = append(s.Concealed, inside.ConcealedPath{Path: c.Path, Link: c.Link})
	}
	for _, c := range r.Policy.Creatable {
		s.Creatable = append(s.Creatable, inside.CreatablePath{Path: c.Path, Parent: c.Parent, First: c.First})
	}
	if r.Direct != nil {
		s.Filter.Direct, s.Filter.HostPorts, s.HostPorts = r.Anywhere, len(r.HostPorts) > 0, r.HostPorts
	}
	for _, r := range r.Policy.Sockets {
		s.Sockets = append(s.Sockets, inside.SocketRule{Path: r.Path, Pattern: r.Pattern})
	}
	s.Repositories = !r.NewRepositoryHooks && !r.Policy.Disabled && writes(r)
	s.Filter.Trace = r.Trace
	s.Filter.Guard = r.Trace || len(s.Names) > 0 || s.Standing != "" || len(s.Creatable) > 0 || s.Repositories
	if r.Unguarded {
		s.Filter = inside.FilterOptions{UnixSockets: r.UnixSockets, NestedNamespaces: r.NestedNamespaces, Unguarded: true}
		s.Repositories = false
		s.Names, s.Standing, s.Creatable, s.Sockets, s.HostPorts = nil, "", nil, nil, nil
	}
	return s
}

// writes reports whether the command may leave anything behind.
func writes(r launch.Request) bool {
	return len(r.Policy.Creatable) > 0 || slices.ContainsFunc(r.Policy.Places, func(p policy.Place) bool { return p.Write && p.Path != r.Private })
}

// guardedNames lists every protected name that a mount alone does not hold: the
// missing ones, and the existing ones, whose mount goes away when a process of
// the host replaces the object.
func guardedNames(p *policy.Policy) []inside.GuardedName {
	var names []inside.GuardedName
	for _, a := range p.Absent {
		names = append(names, inside.GuardedName{Dir: a.Parent, Dev: a.Dev, Ino: a.Ino, Name: a.Name, Fold: a.Fold,
			Rule: a.Rule.String(), Cure: a.Rule.Cure, Target: a.Full})
	}
	for _, k := range p.Kept {
		names = append(names, inside.GuardedName{Fold: k.Fold, Rule: k.Rule.String(), Cure: k.Rule.Cure, Target: k.Path})
	}
	for _, place := range p.Places {
		dir, name := path.Split(place.Path)
		dir = path.Clean(dir)
		if place.Path == "/" || place.Write || place.View == policy.Hidden || !p.StateAt(dir).Write {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue // the executor will find it missing, too
		}
		names = append(names, inside.GuardedName{Dir: dir, Dev: st.Dev, Ino: st.Ino, Name: name, Exists: true,
			Rule: place.WriteRule.String(), Cure: place.WriteRule.Cure, Target: place.Path})
	}
	return names
}

// otherProcesses hides every /proc that is mounted elsewhere in the tree, such
// as that of a container's file system: it would show processes outside the
// sandbox, and open those of the same user.
func otherProcesses() inside.Plan {
	mounts, err := inside.ReadMounts()
	if err != nil {
		return nil
	}
	var plan inside.Plan
	for _, m := range mounts {
		var st unix.Stat_t
		if m.Type == "proc" && m.Path != "/proc" && !inside.Beneath("/proc", m.Path) && unix.Lstat(m.Path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			plan = append(plan, inside.Op{Kind: inside.OpHideDir, Path: m.Path, Dir: true})
		}
	}
	return plan
}
