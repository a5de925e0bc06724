// Command network measures the network filter side by side with a plain TCP
// relay and with other proxies that are installed:
//
//	go run ./bench/network [-rounds N] [-only REGEXP]
//
// Everything runs on this machine's loopback. Each contender is a process of its
// own; the rounds are interleaved, so that a busy moment of the machine hits all
// of them, and medians are printed. Of all columns the processor time that a
// connection costs depends least on what else the machine does.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// What one round does.
const (
	bulkBytes   = 512 << 20 // through one tunnel
	shortTime   = time.Second
	shortAtOnce = 8
	idleTunnels = 1000
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		serveAs(os.Args[2], os.Args[3:])
		return
	}
	rounds := flag.Int("rounds", 5, "how often each contender is measured")
	only := flag.String("only", "", "measure only those whose names match this `regexp`")
	flag.Parse()
	names, err := regexp.Compile(*only)
	if err == nil {
		err = measure(*rounds, names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

func measure(rounds int, only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "srt-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Peers drop their privileges and must find their files then.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	target, err := startTarget()
	if err != nil {
		return err
	}
	defer target.stop()
	all := slices.DeleteFunc(contenders(target.addr), func(c *contender) bool { return !only.MatchString(c.name) })
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	all = slices.DeleteFunc(all, func(c *contender) bool { return !c.start(dir) })
	for range rounds {
		for _, c := range all {
			if err := c.round(target.addr); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for _, c := range all {
		if err := c.measureIdle(target.addr); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	report(all, rounds)
	return nil
}

// round measures one contender once.
func (c *contender) round(target string) error {
	speed, err := c.bulk(target)
	if err != nil {
		return fmt.Errorf("moving bytes: %w", err)
	}
	c.speeds = append(c.speeds, speed)
	before := processorTime(c.pid())
	rate, waits, err := c.short(target)
	if err != nil {
		return fmt.Errorf("short connections: %w", err)
	}
	if spent := processorTime(c.pid()) - before; c.process != nil {
		c.costs = append(c.costs, micros(spent)/float64(len(waits)))
	}
	c.rates = append(c.rates, rate)
	slices.Sort(waits)
	c.p50s = append(c.p50s, micros(waits[len(waits)/2]))
	c.p99s = append(c.p99s, micros(waits[len(waits)*99/100]))
	return nil
}

func report(all []*contender, rounds int) {
	fmt.Printf("%d rounds, interleaved, medians. One tunnel of %d MiB; short connections for %v, %d at once: how many a second, how long half and\n"+
		"99 of 100 of them took, the processor time of the contender for each; memory of each of %d idle tunnels.\n",
		rounds, bulkBytes>>20, shortTime, shortAtOnce, idleTunnels)
	fmt.Printf("%-24s %8s %9s %9s %9s %9s %11s\n", "", "MiB/s", "conns/s", "p50", "p99", "CPU", "KiB/tunnel")
	for _, c := range all {
		fmt.Printf("%-24s %8.0f %9.0f %7.0fµs %7.0fµs %9s %11s\n", c.name, median(c.speeds), median(c.rates),
			median(c.p50s), median(c.p99s), known(median(c.costs), "%.0fµs"), known(c.idle, "%.1f"))
	}
}

// known leaves a cell empty for what has no value.
func known(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
