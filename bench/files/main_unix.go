//go:build unix

// Command files measures what a sandbox costs work that makes many files:
//
//	go run ./bench/files
//
// Each kind of work runs plainly, under srt, and under srt without the guard, in
// turn, in an empty directory each time; medians are printed.
package main

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/bench/internal/measure"
)

// work is a command line that runs in an empty directory beside "in". $MODULE is
// the directory of this module, where the benchmark has to be started.
type work struct {
	name, needs, line string
	rounds            int
	prepare           func(in string) error
}

var works = []work{
	{"untar 20 000 files", "tar", "tar xf ../in/files.tar", 7, makeArchive},
	{"git clone, 5 000 files", "git", "git clone -q ../in/repository clone", 7, makeRepository},
	{"npm install, 2 000 files", "npm", "npm install --no-audit --no-fund --offline --silent ../in/package.tgz", 7, makePackage},
	{"go build of srt", "go", `export GOCACHE=$PWD/cache OUT=$PWD/srt; cd "$MODULE" && go build -o "$OUT" ./cmd/srt`, 3, nil},
}

func main() { measure.In("files", compare) }

func compare(dir string) error {
	srt, err := measure.BuildSrt(dir)
	if err != nil {
		return err
	}
	b := &bench{dir: dir, srt: srt}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		return err
	}
	fmt.Printf("medians of runs in turn\n%-26s %5s %10s %10s %7s %12s %7s\n", "", "runs", "plain", "srt", "", "guard off", "")
	for _, w := range works {
		if err := b.run(w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

type bench struct {
	dir, srt string
	turn     int // of the commands
}

func (b *bench) run(w work) error {
	if _, err := exec.LookPath(w.needs); err != nil {
		fmt.Printf("%-26s %s is not installed\n", w.name, w.needs)
		return nil
	}
	if w.prepare != nil {
		if err := w.prepare(filepath.Join(b.dir, "in")); err != nil {
			return err
		}
	}
	const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[".","~/.cache","~/.npm"],"denyWrite":[]}%s}`
	ways := make([][]string, 3)
	for i, more := range []string{"", "", `,"linux":{"guard":"off"}`} {
		file := filepath.Join(b.dir, fmt.Sprintf("settings%d.json", i))
		if err := os.WriteFile(file, fmt.Appendf(nil, settings, more), 0o600); err != nil {
			return err
		}
		if i > 0 {
			ways[i] = []string{b.srt, "-s", file, "--"}
		}
	}
	times := make([][]time.Duration, len(ways))
	for range w.rounds {
		for i, way := range ways {
			took, err := b.once(append(slices.Clone(way), "bash", "-c", w.line))
			if err != nil {
				return err
			}
			times[i] = append(times[i], took)
		}
	}
	plain, guarded, unguarded := measure.Median(times[0]).Seconds(), measure.Median(times[1]).Seconds(), measure.Median(times[2]).Seconds()
	fmt.Printf("%-26s %5d %9.2fs %9.2fs %+6.0f%% %11.2fs %+6.0f%%\n", w.name, w.rounds, plain, guarded, 100*(guarded/plain-1), unguarded, 100*(unguarded/plain-1))
	return nil
}

// once runs a command in a new directory and returns how long it took. The
// directories stay until the end: ext4 searches long for a free inode after many
// were freed.
func (b *bench) once(args []string) (time.Duration, error) {
	b.turn++
	work := filepath.Join(b.dir, fmt.Sprint("work", b.turn))
	if err := os.Mkdir(work, 0o755); err != nil {
		return 0, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = work
	here, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	cmd.Env = append(os.Environ(), "MODULE="+here, "CGO_ENABLED=0")
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return time.Since(begin), nil
}

func makeArchive(in string) error {
	f, err := os.Create(filepath.Join(in, "files.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	text := []byte(strings.Repeat("x", 500))
	for i := range 20_000 {
		h := &tar.Header{Name: fmt.Sprintf("t/d%d/f%d", i/100, i), Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(1_700_000_000, 0)}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}

// makeFiles writes n small files in directories of a hundred.
func makeFiles(dir string, n int) error {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprint("d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint("f", i)), fmt.Appendf(nil, "%d\n%s", i, strings.Repeat("line\n", 100)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func makeRepository(in string) error {
	dir := filepath.Join(in, "repository")
	if err := makeFiles(dir, 5_000); err != nil {
		return err
	}
	return shell(dir, "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.invalid commit -qm x && git gc -q")
}

func makePackage(in string) error {
	dir := filepath.Join(in, "package")
	if err := makeFiles(dir, 2_000); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name":"p","version":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return shell(in, "tar czf package.tgz package")
}

func shell(dir, line string) error {
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
