// Package measure holds what the benchmarks share.
package measure

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// BuildSrt builds the command as it is released, in dir, and returns its path.
func BuildSrt(dir string) (string, error) {
	binary := filepath.Join(dir, "srt")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "github.com/srt-sandbox/srt/cmd/srt")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building srt: %w\n%s", err, out)
	}
	return binary, nil
}

// Median sorts the values and returns the one in the middle.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Quantile sorts the values and returns the one below which the given part of
// them lies, 0 to 1. There must be at least one.
func Quantile[T cmp.Ordered](values []T, part float64) T {
	slices.Sort(values)
	return values[min(int(part*float64(len(values))), len(values)-1)]
}

// In runs do with a new directory that is removed afterwards. It is the main
// function of a benchmark: an error ends the process.
func In(name string, do func(dir string) error) {
	dir, err := os.MkdirTemp("", "srt-bench")
	if err == nil {
		err = do(dir)
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
