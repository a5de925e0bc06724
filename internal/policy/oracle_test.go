package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/srt-sandbox/srt/config"
)

// oracle answers from the lists alone, for entries that are names without
// links: for each question it looks at every entry again.
type oracle struct {
	f                                                  *fakeFS
	denyRead, allowRead, allowWrite, denyWrite, secret []string
}

// covers returns the longest of the paths that p is or lies in.
func covers(paths []string, p string) string {
	best := ""
	for _, q := range paths {
		if within(q, p) && len(q) > len(best) {
			best = q
		}
	}
	return best
}

func (o oracle) dir(p string) bool { return o.f.nodes[p] != nil && o.f.nodes[p].kind == Dir }

// there drops the paths that do not exist: they hide and show nothing.
func (o oracle) there(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return o.f.nodes[p] == nil })
}

// hiddenBy returns the rule's path that hides the directory p or what it lies
// in, or "".
func (o oracle) hidden(p string) bool {
	if covers(o.there(o.secret), p) != "" {
		return true
	}
	dirs := slices.DeleteFunc(o.there(o.denyRead), func(q string) bool { return !o.dir(q) })
	shown := slices.DeleteFunc(o.there(slices.Concat(o.allowRead, o.allowWrite)), func(q string) bool {
		// A denied file is shown by an allowRead of the very file only.
		return !o.dir(q) && slices.Contains(o.denyRead, q) && !slices.Contains(o.allowRead, q)
	})
	deny, allow := covers(dirs, p), covers(shown, p)
	return deny != "" && len(allow) < len(deny)
}

func (o oracle) unreadable(p string) bool {
	file := o.f.nodes[p] != nil && !o.dir(p)
	return o.hidden(p) || file && slices.Contains(o.denyRead, p) && !slices.Contains(o.allowRead, p)
}

func (o oracle) mayWrite(p string) bool {
	return covers(o.there(o.allowWrite), p) != "" && covers(o.there(o.denyWrite), p) == "" && !slices.Contains(o.filesInWay(), p)
}

// filesInWay are files that stand where a denied path needs a directory.
func (o oracle) filesInWay() []string {
	var all []string
	for _, p := range o.denyWrite {
		for dir := parentOf(p); dir != "/"; dir = parentOf(dir) {
			if n := o.f.nodes[dir]; n != nil && n.kind != Dir {
				all = append(all, dir)
			}
		}
	}
	return all
}

// scratch: what takes the place of a hidden directory is writable where the
// directory would be. The directory is the highest that is hidden without
// something in between.
func (o oracle) scratch(p string) bool {
	top := p
	for top != "/" && o.hidden(parentOf(top)) {
		top = parentOf(top)
	}
	return o.mayWrite(top)
}

func (o oracle) read(p string) string {
	switch {
	case p != "/" && o.hidden(parentOf(p)) && o.hidden(p) && !o.leadsToShown(p):
		return "ENOENT"
	case o.unreadable(p) && !o.dir(p):
		return "EACCES"
	}
	return "ok"
}

// leadsToShown: the way to something shown is there.
func (o oracle) leadsToShown(p string) bool {
	for q := range o.f.nodes {
		if beneath(p, q) && !o.hidden(q) && !o.unreadable(q) {
			return true
		}
	}
	return false
}

func (o oracle) create(parent, name string) string {
	p := child(parent, name)
	switch {
	case o.hidden(parent) && o.scratch(parent):
		return "ok"
	case o.hidden(parent) || !o.mayWrite(parent):
		return "EROFS"
	case o.protectedName(parent, name), o.protectedBelow(parent, name):
		return "EPERM"
	}
	for _, q := range slices.Concat(o.denyWrite, o.denyRead, o.secret) {
		if o.f.nodes[q] == nil && within(p, q) {
			return "EPERM"
		}
	}
	return "ok"
}

// protectedName knows one of the names that no list lifts.
func (o oracle) protectedName(parent, name string) bool {
	if name != ".bashrc" && name != ".vscode" {
		return false
	}
	return slices.Contains(o.there(o.allowWrite), parent) || parent == "/w" && covers(o.there(o.allowWrite), "/w") != ""
}

// protectedBelow knows two of the names that must not appear further down: one of
// a file, and one of a directory, which counts one level less deep.
func (o oracle) protectedBelow(parent, name string) bool {
	deepest, ok := map[string]int{".bashrc": config.Default().SearchDepth() - 1, ".vscode": config.Default().SearchDepth() - 2}[name]
	roots := o.there(o.allowWrite)
	if covers(roots, "/w") != "" {
		roots = append(roots, "/w")
	}
	return slices.ContainsFunc(roots, func(root string) bool {
		depth := len(components(parent)) - len(components(root))
		return ok && o.dir(root) && within(root, parent) && depth <= deepest
	})
}

func (o oracle) remove(p string) string {
	parent := parentOf(p)
	switch {
	case o.hidden(parent) && !o.hidden(p):
		if o.scratch(parent) {
			return "EBUSY"
		}
		return "EROFS"
	case o.hidden(parent):
		return "" // not there
	case !o.mayWrite(parent):
		return "EROFS"
	}
	for q := range o.f.nodes {
		if !within(p, q) {
			continue
		}
		if o.unreadable(q) || !o.mayWrite(q) {
			return "EBUSY"
		}
		for _, n := range []string{".bashrc", "n", "m"} {
			// What is kept from directories further down does not keep them in place.
			root := n != ".bashrc" || o.protectedName(q, n)
			if o.dir(q) && root && o.f.nodes[child(q, n)] == nil && o.create(q, n) == "EPERM" {
				return "EBUSY"
			}
		}
	}
	return "ok"
}

var oraclePaths = []string{"/w", "/w/a", "/w/a/b", "/w/a/b/f", "/w/a/g", "/w/c", "/w/c/d/e/f", "/w/c/d", "/w/f", "/o", "/o/f", "/o/p/f", "/o/p", "/w/n", "/w/a/n/m", "/o/p/n", "/w/f/n"}

func drawOracle(t *rapid.T) (oracle, Input) {
	f := newFake(user, "/w/a/b/f", "/w/a/g", "/w/c/d/e/f", "/w/f", "/o/f", "/o/p/f", "/o/q/r/")
	o := oracle{f: f}
	c := config.Default()
	draw := func(name string, most int, to *[]string, list *[]config.PathEntry) {
		*to = rapid.SliceOfN(rapid.SampledFrom(oraclePaths), 0, most).Draw(t, name)
		*list = append(*list, entries(*to...)...)
	}
	draw("allowWrite", 4, &o.allowWrite, &c.Filesystem.AllowWrite)
	draw("denyWrite", 3, &o.denyWrite, &c.Filesystem.DenyWrite)
	draw("denyRead", 4, &o.denyRead, &c.Filesystem.DenyRead)
	draw("allowRead", 3, &o.allowRead, &c.Filesystem.AllowRead)
	var secrets []config.PathEntry
	draw("secret", 1, &o.secret, &secrets)
	c.Credentials = &config.Credentials{}
	for _, s := range o.secret {
		c.Credentials.Files = append(c.Credentials.Files, config.CredentialFile{Path: s, Mode: "deny"})
	}
	return o, Input{Config: c, Cwd: "/w", UID: user, FS: f}
}

// The policy answers as a reading of the lists does, path by path.
func TestDecideAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, in := drawOracle(t)
		p, err := Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for path := range o.f.nodes {
			o.check(t, p, Read, path, o.read(path))
			if path != "/" {
				o.check(t, p, Remove, path, o.remove(path))
			}
			if !o.hidden(path) && !o.unreadable(path) {
				want := "EROFS"
				if o.mayWrite(path) {
					want = "ok"
				}
				o.check(t, p, Write, path, want)
			}
			if !o.dir(path) {
				continue
			}
			for _, n := range []string{"new", "n", "m", ".bashrc", ".vscode"} {
				if o.f.nodes[child(path, n)] == nil && !o.creatable(p, child(path, n)) && (!o.hidden(path) || !o.leadsToShown(path)) {
					o.check(t, p, Create, child(path, n), o.create(path, n))
				}
			}
		}
	})
}

// creatable paths are a matter of their own; see TestCreatable.
func (o oracle) creatable(p *Policy, path string) bool {
	_, ok := p.creates(path)
	return ok
}

func (o oracle) check(t *rapid.T, p *Policy, op Op, path, want string) {
	if want == "" {
		return
	}
	got := "ok"
	if d := p.Decide(op, path); !d.Allow {
		got = d.Errno
	}
	if got != want {
		t.Fatalf("operation %d on %s: %s, the lists say %s\n%+v\n%s", op, path, got, want, o, describe(p))
	}
}

func describe(p *Policy) string {
	var b strings.Builder
	for _, pl := range p.Places {
		fmt.Fprintf(&b, "%s view=%d write=%v scratch=%v\n", pl.Path, pl.View, pl.Write, pl.Scratch)
	}
	fmt.Fprintf(&b, "pins %+v\nabsent %+v\n", p.Pins, p.Absent)
	return b.String()
}

// Places are sorted, parents first, each differs from what it lies in, and
// nothing lies in what is masked or in what is hidden without being shown.
func TestPlacesAreMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, in := drawOracle(t)
		p, err := Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, pl := range p.Places {
			if i == 0 {
				if pl.Path != "/" || pl.Write || pl.View != Host {
					t.Fatalf("the first place is %+v", pl)
				}
				continue
			}
			above := p.StateAt(parentOf(pl.Path))
			switch {
			case comparePaths(p.Places[i-1].Path, pl.Path) >= 0:
				t.Fatalf("%s is out of order", pl.Path)
			case above.View == pl.View && above.Write == pl.Write:
				t.Fatalf("%s changes nothing\n%s", pl.Path, describe(p))
			case above.View == Masked, above.View == Hidden && pl.View != Host:
				t.Fatalf("%s lies where nothing is\n%s", pl.Path, describe(p))
			case pl.Write && pl.View != Host, pl.Scratch && pl.View != Hidden, pl.View == Hidden && pl.Kind != Dir, pl.View == Masked && pl.Kind == Dir:
				t.Fatalf("%s contradicts itself\n%s", pl.Path, describe(p))
			}
		}
		for _, pin := range p.Pins {
			if _, place := p.byPath[pin.Path]; place || !p.writable(parentOf(pin.Path)) {
				t.Fatalf("the pin on %s is for nothing\n%s", pin.Path, describe(p))
			}
		}
		for _, a := range p.Absent {
			if !p.writable(a.Parent) {
				t.Fatalf("nobody could create %s in %s", a.Name, a.Parent)
			}
		}
	})
}

// The order of entries does not matter. linux 29
func TestOrderOfEntriesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, in := drawOracle(t)
		first, err := Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		fs := &in.Config.Filesystem
		for _, list := range [][]config.PathEntry{fs.AllowWrite, fs.AllowRead, fs.DenyRead, fs.DenyWrite} {
			slices.Reverse(list)
		}
		second, err := Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := shape(first), shape(second); a != b {
			t.Fatalf("%s\nthe other way round\n%s", a, b)
		}
	})
}

// shape is what a policy does, without the rules that it quotes.
func shape(p *Policy) string {
	var b strings.Builder
	for _, pl := range p.Places {
		fmt.Fprintf(&b, "%s %d %v %v\n", pl.Path, pl.View, pl.Write, pl.Scratch)
	}
	for _, a := range p.Absent {
		fmt.Fprintf(&b, "absent %s %s %v\n", a.Parent, a.Name, a.Fold)
	}
	for _, pin := range p.Pins {
		fmt.Fprintf(&b, "pin %s\n", pin.Path)
	}
	return b.String()
}

// FuzzResolve: no entry brings the resolution down, and none makes a place
// writable that only a link planted by the user leads to.
func FuzzResolve(f *testing.F) {
	f.Add("l/x", "**/f", "a/../l", "[x]/*", 0)
	f.Add("~/**", "/**", "w/./..//l", "{a}", 1)
	f.Add("l", "?", "***/", "[", 2)
	f.Fuzz(func(t *testing.T, allow, deny, read, show string, shape int) {
		tree := [][]string{
			{"/home/u/w/l -> /target", "/target/x/f"},
			{"/home/u/w/[x]/l -> /target", "/home/u/w/l -> [x]/l", "/target/x/f", "/home/u/w/a/f"},
			{"/home/u/w/l -> a", "/home/u/w/a -> /target", "/target/x/f", "mode=0 /home/u/w/closed/"},
		}[uint(shape)%3]
		for _, e := range []string{allow, deny, read, show} {
			if strings.Contains(e, "target") || len(e) > 200 {
				t.Skip()
			}
		}
		p, err := resolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
			fs.AllowWrite, fs.DenyWrite, fs.DenyRead, fs.AllowRead = entries(allow), entries(deny), entries(read), entries(show)
		})
		if err != nil {
			return
		}
		if p.writable("/") {
			t.Skip()
		}
		for _, path := range []string{"/target", "/target/x", "/target/x/f"} {
			if d := p.Decide(Write, path); d.Allow {
				t.Errorf("%q makes %s writable", allow, path)
			}
		}
	})
}
