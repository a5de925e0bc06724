package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/tcp"
)

// contender is one way to reach the target.
type contender struct {
	name     string
	protocol string // "http", "socks" or "" for none
	// self are the words with which this program runs itself as the contender.
	self []string
	// program is one that may be installed; configure writes its settings and
	// returns the arguments.
	program   string
	configure func(dir string, port, rules int) ([]string, error)
	rules     int

	addr    string
	process *os.Process
	stdin   io.Closer // of self
	// What was measured, round by round: MiB/s, connections a second, the time that
	// half and 99 of 100 of them took, and processor time for each in µs.
	speeds, rates, p50s, p99s, costs []float64

	idle float64 // KiB
}

// pid is 0 for a contender without a process.
func (c *contender) pid() int {
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

func contenders(target string) []*contender {
	all := []*contender{
		{name: "direct", addr: target},
		{name: "plain relay", self: []string{"relay", target}},
	}
	for _, rules := range []int{10, 10_000} {
		of := fmt.Sprintf(", %d rules", rules)
		all = append(all,
			&contender{name: "srt CONNECT" + of, protocol: "http", self: []string{"filter", strconv.Itoa(rules)}},
			&contender{name: "srt SOCKS" + of, protocol: "socks", self: []string{"filter", strconv.Itoa(rules)}},
			&contender{name: "tinyproxy" + of, protocol: "http", program: "tinyproxy", configure: tinyproxy, rules: rules},
			&contender{name: "squid" + of, protocol: "http", program: "squid", configure: squid, rules: rules})
	}
	return append(all, &contender{name: "dante, no rules", protocol: "socks", program: "danted", configure: dante})
}

// start brings the contender up; false means that it cannot run here.
func (c *contender) start(dir string) bool {
	if c.self == nil && c.program == "" {
		return true
	}
	var err error
	if c.self != nil {
		err = c.startSelf()
	} else {
		err = c.startProgram(dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s is left out: %v\n", c.name, err)
		c.stop()
		return false
	}
	return true
}

// startSelf runs this program as the contender, which prints its address.
func (c *contender) startSelf() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, append([]string{"as"}, c.self...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// It ends with its standard input, whatever happens to this process.
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd.Process
	line, err := bufio.NewReader(out).ReadString('\n')
	c.addr = strings.TrimSpace(line)
	return err
}

func (c *contender) startProgram(dir string) error {
	program, err := exec.LookPath(c.program)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	sub := filepath.Join(dir, fmt.Sprintf("%s-%d", c.program, c.rules))
	if err := os.MkdirAll(sub, 0o755); err != nil {
		return err
	}
	args, err := c.configure(sub, port, c.rules)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd.Process
	c.addr = fmt.Sprintf("127.0.0.1:%d", port)
	for range 100 {
		if conn, err := net.Dial("tcp", c.addr); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not listen after five seconds", c.program)
}

func (c *contender) stop() {
	if c.process == nil {
		return
	}
	_ = c.process.Signal(os.Interrupt)
	done := time.AfterFunc(2*time.Second, func() { _ = c.process.Kill() })
	_, _ = c.process.Wait()
	done.Stop()
	c.process = nil
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

func startTarget() (*contender, error) {
	t := &contender{name: "target", self: []string{"target"}}
	return t, t.startSelf()
}

// serveAs is this program in one of its roles. It ends with its standard input.
func serveAs(role string, args []string) {
	// Plain TCP, as the sockets of a sandbox are.
	var listen net.ListenConfig
	listen.SetMultipathTCP(false)
	ln, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(ln.Addr())
		switch role {
		case "target":
			go accept(ln, serveTarget)
		case "relay":
			go accept(ln, func(conn net.Conn) { relay(conn, args[0]) })
		case "filter":
			err = serveFilter(ln, args[0])
		default:
			err = fmt.Errorf("no role %q", role)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func accept(ln net.Listener, serve func(net.Conn)) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go serve(conn)
	}
}

// relay is what every proxy is compared with: it decides nothing.
func relay(conn net.Conn, target string) {
	defer conn.Close()
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, conn)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, up)
}

// serveFilter serves srt's own filter, as the listeners of a sandbox are served.
func serveFilter(ln net.Listener, rules string) error {
	n, err := strconv.Atoi(rules)
	if err != nil {
		return err
	}
	cfg := config.Default()
	cfg.Network.AllowedDomains = append(names(n, "*."), "127.0.0.1")
	hosts, err := policy.NewHosts(cfg)
	if err != nil {
		return err
	}
	own, err := asInSandbox(ln)
	if err != nil {
		return err
	}
	go proxy.New(hosts, proxy.Options{}).Serve(own, proxy.Invocation{})
	return nil
}

// asInSandbox makes a listener what srt makes of those that it gets from a sandbox.
func asInSandbox(ln net.Listener) (net.Listener, error) {
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return tcp.FileListener(fd)
}

// names are hosts that nobody asks for.
func names(n int, prefix string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%sh%d.example.com", prefix, i)
	}
	return all
}
