package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// tree is a scratch directory with a working directory "w" and a home "h".
type tree struct {
	t         *testing.T
	root      string
	cfg       *config.Config
	protected []string
}

func newTree(t *testing.T) *tree {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{t: t, root: root, cfg: config.Default()}
	tr.dirs("w", "h")
	return tr
}

func (tr *tree) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(tr.root, p)
}

func (tr *tree) dirs(paths ...string) {
	for _, p := range paths {
		if err := os.MkdirAll(tr.path(p), 0o755); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func (tr *tree) files(paths ...string) {
	for _, p := range paths {
		tr.dirs(filepath.Dir(tr.path(p)))
		if err := os.WriteFile(tr.path(p), []byte("x"), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func (tr *tree) link(target, p string) {
	tr.dirs(filepath.Dir(tr.path(p)))
	if err := os.Symlink(target, tr.path(p)); err != nil {
		tr.t.Fatal(err)
	}
}

func entries(paths ...string) []config.PathEntry {
	var all []config.PathEntry
	for _, p := range paths {
		all = append(all, config.PathEntry{Path: p})
	}
	return all
}

func (tr *tree) input() Input {
	return Input{Config: tr.cfg, Cwd: tr.path("w"), Home: tr.path("h"), UID: os.Getuid(), FS: OSFS(), Protected: tr.protected}
}

func (tr *tree) resolve() *Policy {
	tr.t.Helper()
	p, err := Resolve(tr.t.Context(), tr.input())
	if err != nil {
		tr.t.Fatal(err)
	}
	return p
}

// expect checks answers written as "op path answer", where the answer is "ok"
// or an error name.
func (tr *tree) expect(p *Policy, lines ...string) {
	tr.t.Helper()
	ops := map[string]Op{"read": Read, "write": Write, "create": Create, "remove": Remove, "link": Link}
	for _, l := range lines {
		f := strings.Fields(l)
		d := p.Decide(ops[f[0]], tr.path(f[1]))
		got := d.Errno
		if d.Allow {
			got = "ok"
		}
		if got != f[2] {
			tr.t.Errorf("%s %s: %s (place %+v), want %s", f[0], f[1], got, d.Place, f[2])
		}
	}
}

func (tr *tree) pins(p *Policy) []string {
	var all []string
	for _, pin := range p.Pins {
		all = append(all, strings.TrimPrefix(pin.Path, tr.root+"/"))
	}
	return all
}

func (tr *tree) warned(p *Policy, entry string) bool {
	return slices.ContainsFunc(p.Warnings, func(w Warning) bool { return w.Entry == entry })
}
