package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// project makes a small repository as people have them.
func project(tb testing.TB, dir string) {
	for _, f := range []string{".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/objects/x", ".git/refs/x", ".gitignore", "README.md", "go.mod", ".vscode/settings.json",
		"cmd/tool/main.go", "internal/a/a.go", "internal/a/b/b.go", "internal/c/c.go", "docs/index.md", "testdata/x/y/z"} {
		must(tb, os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755))
		must(tb, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
	}
}

func BenchmarkResolveProject(b *testing.B) {
	dir := b.TempDir()
	project(b, dir)
	cfg := config.Default()
	cfg.Filesystem.AllowWrite = entries(".")
	cfg.Filesystem.DenyRead = entries("~/.ssh", "~/.aws")
	in := Input{Config: cfg, Cwd: dir, Home: b.TempDir(), UID: os.Getuid(), FS: OSFS()}
	for b.Loop() {
		if _, err := Resolve(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecide: the number of rules must not show.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		tree := []string{"/home/u/w/d1/f1"}
		var rules []string
		for i := range n {
			f := fmt.Sprintf("/home/u/w/d%d/f%d", i%100, i)
			tree, rules = append(tree, f), append(rules, f, f+".absent")
		}
		f := newFake(user, tree...)
		p := mustResolveFake(b, f, func(_ *Input, fs *config.Filesystem) { fs.AllowWrite, fs.DenyWrite = entries("."), entries(rules...) })
		for name, op := range map[string]Op{"write": Write, "remove": Remove, "read": Read} {
			b.Run(fmt.Sprintf("%s/rules=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if p.Decide(op, "/home/u/w/d1/f1").Allow != (op == Read) {
						b.Fatal("wrong answer")
					}
				}
			})
		}
	}
}

// BenchmarkResolveManyRules resolves 10 000 rules.
func BenchmarkResolveManyRules(b *testing.B) {
	dir := b.TempDir()
	var rules []string
	for i := range 10_000 {
		f := filepath.Join(dir, fmt.Sprint("d", i%100), fmt.Sprint("f", i))
		must(b, os.MkdirAll(filepath.Dir(f), 0o755))
		must(b, os.WriteFile(f, nil, 0o644))
		rules = append(rules, f)
	}
	cfg := config.Default()
	cfg.Filesystem.AllowWrite, cfg.Filesystem.DenyWrite = entries("."), entries(rules...)
	for b.Loop() {
		if _, err := Resolve(b.Context(), Input{Config: cfg, Cwd: dir, UID: os.Getuid(), FS: OSFS()}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchTree(b *testing.B) string {
	dir := os.Getenv("SRT_BENCH_TREE")
	if dir != "" {
		return dir
	}
	dir = b.TempDir()
	for i := range 200 {
		d := filepath.Join(dir, fmt.Sprint("a", i%10), fmt.Sprint("b", i))
		must(b, os.MkdirAll(d, 0o755))
		for j := range 25 {
			must(b, os.WriteFile(filepath.Join(d, fmt.Sprint("file", j, ".go")), nil, 0o644))
		}
	}
	return dir
}

// BenchmarkProtect looks for protected names in the tree of BenchmarkSearch, and
// writes down its directories.
func BenchmarkProtect(b *testing.B) {
	dir := benchTree(b)
	cfg := config.Default()
	cfg.Filesystem.AllowWrite = entries(".")
	size := 0
	for b.Loop() {
		p, err := Resolve(b.Context(), Input{Config: cfg, Cwd: dir, UID: os.Getuid(), FS: OSFS()})
		if err != nil {
			b.Fatal(err)
		}
		size = len(p.Standing.Encode())
	}
	b.ReportMetric(float64(size), "spec-bytes")
}

// BenchmarkSearch searches the tree that SRT_BENCH_TREE names, or a small one
// that it makes, for a pattern at every depth.
func BenchmarkSearch(b *testing.B) {
	dir := benchTree(b)
	for _, pattern := range []string{"**/.env", "**/*.pem", "a*/**/?ecret[0-9]"} {
		b.Run(pattern, func(b *testing.B) {
			cfg := config.Default()
			cfg.Filesystem.DenyRead = entries(pattern)
			for b.Loop() {
				if _, err := Resolve(b.Context(), Input{Config: cfg, Cwd: dir, UID: os.Getuid(), FS: OSFS()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
