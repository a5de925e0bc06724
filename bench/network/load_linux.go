package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The target does what the first byte of a connection says.
const (
	doSink = 's' // read bulkBytes, then answer one byte
	doEcho = 'e' // send one byte back and end
	doWait = 'w' // send one byte back and wait for the end
)

func serveTarget(conn net.Conn) {
	defer conn.Close()
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return
	}
	if first[0] == doSink {
		_, _ = io.CopyN(io.Discard, conn, bulkBytes)
	}
	_, _ = conn.Write(first[:])
	if first[0] == doWait {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// open makes a connection to the target through the contender and says what the
// target is to do.
func (c *contender) open(target string, what byte) (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", c.addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if err = c.greet(conn, target); err == nil {
		_, err = conn.Write([]byte{what})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (c *contender) greet(conn net.Conn, target string) error {
	switch c.protocol {
	case "http":
		return greetHTTP(conn, target)
	case "socks":
		return greetSOCKS(conn, target)
	}
	return nil
}

func greetHTTP(conn net.Conn, target string) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return err
	}
	var head []byte
	buf := make([]byte, 4096)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(buf)
		if err != nil {
			return fmt.Errorf("reading the answer to CONNECT: %w", err)
		}
		head = append(head, buf[:n]...)
	}
	if len(head) < 12 || string(head[9:12]) != "200" {
		return fmt.Errorf("CONNECT was answered with %.40q", head)
	}
	return nil
}

func greetSOCKS(conn net.Conn, target string) error {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host).To4()
	answer := make([]byte, 10)
	if _, err := conn.Write([]byte{5, 1, 0}); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, answer[:2]); err != nil {
		return err
	}
	if _, err := conn.Write(append(append([]byte{5, 1, 0, 1}, ip...), byte(port>>8), byte(port))); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, answer); err != nil || answer[1] != 0 {
		return fmt.Errorf("SOCKS reply %d (%w)", answer[1], err)
	}
	return nil
}

// bulk returns how many MiB a second one tunnel moves.
func (c *contender) bulk(target string) (float64, error) {
	conn, err := c.open(target, doSink)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	buf := make([]byte, 256<<10)
	begin := time.Now()
	for sent := 0; sent < bulkBytes; sent += len(buf) {
		if _, err := conn.Write(buf); err != nil {
			return 0, err
		}
	}
	if _, err := io.ReadFull(conn, buf[:1]); err != nil {
		return 0, err
	}
	return bulkBytes / (1 << 20) / time.Since(begin).Seconds(), nil
}

// short returns how many whole connections a second the contender serves, and
// how long each took.
func (c *contender) short(target string) (float64, []time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var group sync.WaitGroup
	begin := time.Now()
	for range shortAtOnce {
		group.Go(func() {
			waits, err := c.shortOnes(target, begin.Add(shortTime))
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, waits...), errors.Join(failed, err)
		})
	}
	group.Wait()
	return float64(len(all)) / time.Since(begin).Seconds(), all, failed
}

func (c *contender) shortOnes(target string, end time.Time) (waits []time.Duration, err error) {
	for time.Now().Before(end) {
		begin := time.Now()
		conn, err := c.open(target, doEcho)
		if err != nil {
			return waits, err
		}
		_, err = io.ReadFull(conn, make([]byte, 1))
		conn.Close()
		if err != nil {
			return waits, err
		}
		waits = append(waits, time.Since(begin))
	}
	return waits, nil
}

// measureIdle returns how much the contender's memory grows by an idle tunnel.
// What it takes is the resident memory of its processes.
func (c *contender) measureIdle(target string) error {
	if c.process == nil {
		return nil
	}
	before := resident(c.process.Pid)
	conns := make([]net.Conn, idleTunnels)
	var failures atomic.Int64
	for i := range conns {
		conn, err := c.open(target, doWait)
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		if err != nil {
			failures.Add(1)
			continue
		}
		conns[i] = conn
		defer conn.Close()
	}
	if n := failures.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "%s: %d of %d idle tunnels failed\n", c.name, n, idleTunnels)
		return nil
	}
	c.idle = float64(resident(c.process.Pid)-before) / idleTunnels
	return nil
}

// resident is the memory of a process and its children, in KiB.
func resident(pid int) int {
	total := 0
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			total, _ = strconv.Atoi(f[1])
		}
	}
	for _, child := range children(pid) {
		total += resident(child)
	}
	return total
}

func children(pid int) []int {
	var all []int
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// processorTime is what a process and its children have used, those that ended
// included.
func processorTime(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every system of Linux
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// What follows the name, see proc_pid_stat(5): the state is field 3.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	total := time.Duration(0)
	for _, f := range fields[14-3 : 18-3] { // utime, stime, cutime, cstime
		n, _ := strconv.Atoi(f)
		total += time.Duration(n) * tick
	}
	for _, child := range children(pid) {
		total += processorTime(child)
	}
	return total
}
