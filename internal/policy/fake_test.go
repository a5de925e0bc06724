package policy

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/protected"
)

// fakeFS is a tree in memory, with owners and closed directories, which real
// trees have only for one kind of user.
type fakeFS struct {
	nodes map[string]*fakeNode
	uid   int
}

type fakeNode struct {
	kind   Kind
	mode   fs.FileMode
	uid    int
	target string
	text   string
	fail   error // of Lstat
}

// newFake builds a tree from lines: "dir/", "file", "link -> target", each with
// an optional "mode=0700" and "uid=1000" in front. Directories on the way belong
// to uid 0 and are made as needed.
func newFake(uid int, lines ...string) *fakeFS {
	f := &fakeFS{nodes: map[string]*fakeNode{"/": {kind: Dir, mode: 0o755}}, uid: uid}
	for _, l := range lines {
		n := &fakeNode{kind: File, mode: 0o755, uid: uid}
		for {
			word, rest, _ := strings.Cut(l, " ")
			if v, ok := strings.CutPrefix(word, "mode="); ok {
				n.mode = 0
				for _, c := range v {
					n.mode = n.mode*8 + fs.FileMode(c-'0')
				}
			} else if v, ok := strings.CutPrefix(word, "uid="); ok {
				n.uid = 0
				for _, c := range v {
					n.uid = n.uid*10 + int(c-'0')
				}
			} else {
				break
			}
			l = rest
		}
		if name, target, ok := strings.Cut(l, " -> "); ok {
			l, n.kind, n.target = name, Symlink, target
		}
		if name, ok := strings.CutSuffix(l, "/"); ok {
			l, n.kind = name, Dir
		}
		f.put(l, n)
	}
	return f
}

func (f *fakeFS) put(p string, n *fakeNode) {
	for dir := parentOf(p); f.nodes[dir] == nil; dir = parentOf(dir) {
		f.nodes[dir] = &fakeNode{kind: Dir, mode: 0o755, uid: n.uid}
	}
	f.nodes[p] = n
}

// allowed applies the permission bits of owner and others; root passes.
func (f *fakeFS) allowed(n *fakeNode, want fs.FileMode) bool {
	if f.uid == 0 {
		return true
	}
	if n.uid == f.uid {
		want <<= 6
	}
	return n.mode&want == want
}

func (f *fakeFS) find(op, p string) (*fakeNode, error) {
	for dir := parentOf(p); dir != p; dir = parentOf(dir) {
		n := f.nodes[dir]
		switch {
		case n == nil:
			return nil, &os.PathError{Op: op, Path: p, Err: syscall.ENOENT}
		case n.kind != Dir:
			return nil, &os.PathError{Op: op, Path: p, Err: syscall.ENOTDIR}
		case !f.allowed(n, 1):
			return nil, &os.PathError{Op: op, Path: p, Err: syscall.EACCES}
		}
		if dir == "/" {
			break
		}
	}
	n := f.nodes[p]
	if n == nil {
		return nil, &os.PathError{Op: op, Path: p, Err: syscall.ENOENT}
	}
	return n, n.fail
}

func (f *fakeFS) Lstat(p string) (Info, error) {
	n, err := f.find("lstat", p)
	if err != nil {
		return Info{}, err
	}
	return Info{Kind: n.kind, Mode: n.mode, UID: n.uid, Dev: 1, Ino: uint64(len(p))}, nil
}

func (f *fakeFS) Readlink(p string) (string, error) {
	n, err := f.find("readlink", p)
	if err != nil || n.kind != Symlink {
		return "", &os.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
	}
	return n.target, nil
}

func (f *fakeFS) ReadDir(p string) ([]Entry, error) {
	n, err := f.find("list", p)
	switch {
	case err != nil:
		return nil, err
	case n.kind != Dir:
		return nil, &os.PathError{Op: "list", Path: p, Err: syscall.ENOTDIR}
	case !f.allowed(n, 4):
		return nil, &os.PathError{Op: "list", Path: p, Err: syscall.EACCES}
	}
	var all []Entry
	for _, at := range slices.Sorted(maps.Keys(f.nodes)) {
		if at != "/" && parentOf(at) == p {
			all = append(all, Entry{Name: path.Base(at), Kind: f.nodes[at].kind})
		}
	}
	return all, nil
}

func (f *fakeFS) Visit(p string) ([]Entry, protected.Identity, error) {
	entries, err := f.ReadDir(p)
	return entries, f.Identify(p), err
}

func (f *fakeFS) Identify(string) protected.Identity { return protected.Identity{} }

func (f *fakeFS) ReadFile(p string, max int64) ([]byte, error) {
	n, err := f.find("read", p)
	if err != nil || n.kind != File || !f.allowed(n, 4) || int64(len(n.text)) > max {
		return nil, &os.PathError{Op: "read", Path: p, Err: syscall.EACCES}
	}
	return []byte(n.text), nil
}

// resolveFake resolves lists for user 1000 in /home/u/w unless in says otherwise.
func resolveFake(t testing.TB, f *fakeFS, change func(in *Input, c *config.Filesystem)) (*Policy, error) {
	t.Helper()
	in := Input{Config: config.Default(), Cwd: "/home/u/w", Home: "/home/u", UID: f.uid, FS: f}
	change(&in, &in.Config.Filesystem)
	return Resolve(context.Background(), in)
}

func mustResolveFake(t testing.TB, f *fakeFS, change func(in *Input, c *config.Filesystem)) *Policy {
	t.Helper()
	p, err := resolveFake(t, f, change)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answers checks "op path answer" lines, where an answer is "ok" or an error.
func answers(t testing.TB, p *Policy, lines ...string) {
	t.Helper()
	ops := map[string]Op{"read": Read, "list": List, "exec": Execute, "write": Write, "create": Create, "remove": Remove, "from": RenameFrom, "to": RenameTo, "link": Link}
	for _, l := range lines {
		op, rest, _ := strings.Cut(l, " ")
		cut := strings.LastIndexByte(rest, ' ')
		d := p.Decide(ops[op], rest[:cut])
		got := d.Errno
		if d.Allow {
			got = "ok"
		}
		if got != rest[cut+1:] {
			t.Errorf("%s: %s (rule %s, place %+v)", l, got, d.Rule, d.Place)
		}
	}
}

func warnings(p *Policy) string {
	var all []string
	for _, w := range p.Warnings {
		all = append(all, w.String())
	}
	return strings.Join(all, "\n")
}
