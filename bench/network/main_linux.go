// Command network measures the network filter side by side with a plain TCP
// relay and with other proxies that are installed:
//
//	go run ./bench/network
//
// Everything runs on this machine's loopback. Each contender is a process of its
// own; the rounds are interleaved, so that a busy moment of the machine hits all
// of them, and medians are printed.
package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// What one round does.
const (
	rounds      = 5
	bulkBytes   = 512 << 20 // through one tunnel
	shortTime   = time.Second
	shortAtOnce = 8
	idleTunnels = 1000
)

func main() {
	if len(os.Args) > 1 {
		serveAs(os.Args[1], os.Args[2:])
		return
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

func measure() error {
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
	all := contenders(target.addr)
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
	report(all)
	return nil
}

// round measures one contender once.
func (c *contender) round(target string) error {
	speed, err := c.bulk(target)
	if err != nil {
		return fmt.Errorf("moving bytes: %w", err)
	}
	c.speeds = append(c.speeds, speed)
	rate, waits, err := c.short(target)
	if err != nil {
		return fmt.Errorf("short connections: %w", err)
	}
	c.rates = append(c.rates, rate)
	c.waits = append(c.waits, waits...)
	return nil
}

func report(all []*contender) {
	fmt.Printf("%d rounds, interleaved: one tunnel of %d MiB; short connections for %v, %d at once; %d idle tunnels\n",
		rounds, bulkBytes>>20, shortTime, shortAtOnce, idleTunnels)
	fmt.Printf("%-24s %8s %9s %9s %9s %12s\n", "", "MiB/s", "conns/s", "p50", "p99", "KiB/tunnel")
	for _, c := range all {
		slices.Sort(c.waits)
		idle := "-"
		if c.idle > 0 {
			idle = fmt.Sprintf("%.1f", c.idle)
		}
		fmt.Printf("%-24s %8.0f %9.0f %7.0fµs %7.0fµs %12s\n", c.name, median(c.speeds), median(c.rates),
			micros(c.waits[len(c.waits)/2]), micros(c.waits[len(c.waits)*99/100]), idle)
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
