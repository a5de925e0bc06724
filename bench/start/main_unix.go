//go:build unix

// Command start measures how long a sandbox takes from start to end, side by
// side with a bare bubblewrap that makes the same namespaces:
//
//	go run ./bench/start
//
// The runs are interleaved, so that a busy moment of the machine hits every
// contender, and medians are printed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/bench/internal/measure"
)

const runs = 60

type contender struct {
	name  string
	args  []string
	times []time.Duration
	rss   int64 // largest resident set of the started process, KiB
}

func main() { measure.In("start", compare) }

func compare(dir string) error {
	binary, err := measure.BuildSrt(dir)
	if err != nil {
		return err
	}
	settings := filepath.Join(dir, "settings.json")
	const text = `{"network":{"allowedDomains":["localhost"],"deniedDomains":[]},"filesystem":{"denyRead":["~/.ssh"],"allowWrite":["."],"denyWrite":[".env"]}}`
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return err
	}
	contenders := []*contender{
		{name: "true, no sandbox", args: []string{"true"}},
		{name: "bwrap --unshare-all", args: []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"}},
		{name: "srt, defaults", args: []string{binary, "true"}},
		{name: "srt, settings file", args: []string{binary, "-s", settings, "true"}},
	}
	contenders = slices.DeleteFunc(contenders, func(c *contender) bool { _, err := exec.LookPath(c.args[0]); return err != nil })
	for range runs {
		for _, c := range contenders {
			if err := c.run(dir); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	report(contenders)
	return nil
}

func (c *contender) run(dir string) error {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = dir
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	c.times = append(c.times, time.Since(begin))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.rss = max(c.rss, int64(usage.Maxrss))
	}
	return nil
}

func report(contenders []*contender) {
	var base time.Duration
	fmt.Printf("%d runs each, interleaved\n%-24s %10s %10s %8s %10s\n", runs, "", "median", "90th", "ratio", "max RSS")
	for _, c := range contenders {
		median := measure.Median(c.times)
		if c.args[0] == "bwrap" {
			base = median
		}
		ratio := "-"
		if base != 0 {
			ratio = fmt.Sprintf("%.2f", float64(median)/float64(base))
		}
		fmt.Printf("%-24s %8.2fms %8.2fms %8s %7dKiB\n", c.name, ms(median), ms(measure.Quantile(c.times, 0.9)), ratio, c.rss)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
