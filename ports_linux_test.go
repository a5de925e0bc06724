package srt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// commands are what the test binary does inside a sandbox, by $SRT_TEST_COMMAND.
var commands = map[string]func([]string) int{"serve": serveInside, "visit": visitFromInside, "burst": burstInside, "misbehave": misbehaveInside}

// runInside returns a command that runs this binary in the sandbox.
func runInside(t *testing.T, sb *Sandbox, act string, args ...string) *Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := sb.Command(t.Context(), exe, args...)
	cmd.Dir, cmd.Env = workDir(t), append(os.Environ(), "SRT_TEST_COMMAND="+act)
	cmd.Stderr = os.Stderr
	return cmd
}

// serveInside listens on each address, after a pause, says what it is, reads until
// the client is done and sends everything back, upper case.
func serveInside(args []string) int {
	pause, err := time.ParseDuration(args[0])
	if err != nil {
		return 2
	}
	time.Sleep(pause)
	var serving sync.WaitGroup
	for _, address := range args[1:] {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, "serving:", err)
			return 1
		}
		serving.Go(func() { echo(ln) })
	}
	if up := os.Getenv("SRT_TEST_UP"); up != "" {
		_ = os.WriteFile(up, nil, 0o600)
	}
	serving.Wait()
	return 0
}

func echo(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, "served at", ln.Addr())
			if text, err := io.ReadAll(conn); err == nil {
				_, _ = conn.Write(bytes.ToUpper(text))
			}
		}()
	}
}

// visitFromInside connects to each address in turn and prints the first line that
// comes, or why none does.
func visitFromInside(args []string) int {
	for _, address := range args {
		fmt.Println(address, visit(address))
	}
	return 0
}

func visit(address string) string {
	proxied, address, viaProxy := strings.Cut(address, "!")
	if !viaProxy {
		address = proxied
	}
	target := address
	if viaProxy {
		target = "127.0.0.1:3128"
	}
	conn, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil {
		var e syscall.Errno
		errors.As(err, &e)
		return "failed: " + e.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(conn)
	if viaProxy {
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", address)
		if status, _ := r.ReadString('\n'); !strings.Contains(status, " 200 ") {
			return strings.TrimSpace(status)
		}
		_, _ = r.ReadString('\n')
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "broken: " + err.Error()
	}
	return strings.TrimSpace(line)
}

// burstInside connects very often at once and prints how many times it was served.
func burstInside(args []string) int {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	served := make(chan bool, count)
	for range count {
		go func() { served <- strings.HasPrefix(visit(args[1]), "served") }()
	}
	n := 0
	for range count {
		if <-served {
			n++
		}
	}
	fmt.Println(n)
	return 0
}

// exchange sends a text to a server of serveInside through a half-closed
// connection and returns what it said and what came back.
func exchange(address, text string) (greeting, back string, err error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() {
		_, _ = io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
	}()
	all, err := io.ReadAll(conn)
	greeting, back, _ = strings.Cut(string(all), "\n")
	return greeting, back, err
}

// withBackend runs a test under each backend that can carry it out here.
func withBackend(t *testing.T, f func(t *testing.T, backend string), backends ...string) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			if _, err := exec.LookPath("bwrap"); backend == config.BackendBubblewrap && err != nil {
				t.Skip("bubblewrap is not installed")
			}
			if backend == config.BackendLandlock && inside.LandlockABI() == 0 {
				t.Skip("this kernel has no Landlock")
			}
			f(t, backend)
		})
	}
}

// A server inside is reached from this machine, whenever it starts to listen and
// on whichever loopback address; connections end as without a sandbox.
func TestPublish(t *testing.T) {
	withBackend(t, func(t *testing.T, backend string) {
		sb := newSandbox(t, func(c *config.Config) {
			c.Linux = &config.Linux{Backend: backend}
			c.Network.PublishPorts = []config.Publish{{Inside: 4001}}
		})
		addresses := []string{"127.0.0.1:4001", "127.0.0.1:4002"}
		publish := []config.Publish{{Host: "127.0.0.1", Inside: 4002}}
		if haveIPv6() {
			addresses = append(addresses, "[::1]:4003")
			publish = append(publish, config.Publish{Host: "::1", Inside: 4003})
		}
		cmd := runInside(t, sb, "serve", append([]string{"300ms"}, addresses...)...)
		cmd.Publish = publish
		if ports := cmd.Published(); len(ports) != 0 {
			t.Errorf("published before the start: %v", ports)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ports := cmd.Published()
		if len(ports) != len(addresses) {
			t.Fatalf("published %v", ports)
		}
		big := strings.Repeat("half-closed ", 1<<16)
		for i, p := range ports {
			if p.Addr.Port() == 0 || !p.Addr.Addr().IsLoopback() || p.Inside != 4001+i {
				t.Errorf("published %+v", p)
			}
			greeting, back, err := exchange(p.Addr.String(), big)
			if err != nil || greeting != "served at "+addresses[i] || back != strings.ToUpper(big) {
				t.Errorf("%s: %q and %d bytes, %v", p.Addr, greeting, len(back), err)
			}
		}
		if conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.2:%d", ports[0].Addr.Port())); err == nil {
			conn.Close()
			t.Error("the port is open at another address than 127.0.0.1")
		}
		if err := cmd.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		for _, p := range ports {
			if conn, err := net.Dial("tcp", p.Addr.String()); err == nil {
				conn.Close()
				t.Errorf("%s is still open", p.Addr)
			}
		}
	}, config.BackendNative, config.BackendBubblewrap)
}

func haveIPv6() bool {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		ln.Close()
	}
	return err == nil
}

// Many connections at once, over and over, are all served.
func TestPublishMany(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := runInside(t, sb, "serve", "0s", "127.0.0.1:4001")
	cmd.Publish = []config.Publish{{Inside: 4001}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := cmd.Published()[0].Addr.String()
	var wait sync.WaitGroup
	for i := range 300 {
		wait.Go(func() {
			for range 3 {
				text := fmt.Sprintf("client %d", i)
				if _, back, err := exchange(address, text); err != nil || back != strings.ToUpper(text) {
					t.Errorf("%s: %q, %v", text, back, err)
				}
			}
		})
	}
	wait.Wait()
	_ = cmd.Kill()
	_ = cmd.Wait()
}

// A port that is taken, or that could not work, stops the run before it begins and
// says what to change.
func TestPublishRefused(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowHostPorts = []int{5432} })
	for want, p := range map[string]config.Publish{
		fmt.Sprintf("publishing 127.0.0.1:%d (--publish %d:4001): address already in use", port, port): {Port: port, Inside: 4001},
		"publishing 192.0.2.1:4001 (--publish 192.0.2.1:4001): cannot assign":                          {Host: "192.0.2.1", Port: 4001, Inside: 4001},
		"port 3128 inside is that of the sandbox's own proxy":                                          {Inside: 3128},
		"port 1080 inside is that of the sandbox's own proxy":                                          {Inside: 1080},
		"cannot listen on port 80 inside":                                                              {Port: 8080, Inside: 80},
		"network.allowHostPorts says that port 5432 inside is the one of this machine":                 {Inside: 5432},
		"the port inside is missing":                                                                   {Port: 1},
	} {
		cmd := sb.Command(t.Context(), "touch", "ran")
		cmd.Dir, cmd.Publish = workDir(t), []config.Publish{{Inside: 4001}, p}
		if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(cmd.Dir + "/ran"); err == nil {
			t.Error("the command ran")
		}
	}
	cfg := sb.Config()
	cfg.Network.PublishPorts = []config.Publish{{Port: port, Inside: 4001}}
	if err := sb.Update(cfg); err != nil {
		t.Fatal(err)
	}
	var start *StartError
	if err := sb.Command(t.Context(), "true").Run(); !errors.As(err, &start) || !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "network.publishPorts[0]") || !strings.Contains(start.Cure, "another port") {
		t.Errorf("%v", err)
	}
	var unsupported *UnsupportedError
	cfg.Network.PublishPorts = []config.Publish{{Port: port, Inside: 3128}}
	if err := sb.Update(cfg); !errors.As(err, &unsupported) {
		t.Errorf("%v", err)
	}
	for _, p := range []int{3128, 1080, 53} {
		cfg := config.Default()
		cfg.Network.AllowHostPorts = []int{5432, p}
		if _, err := New(t.Context(), cfg); !errors.As(err, &unsupported) || unsupported.Setting != "network.allowHostPorts[1]" {
			t.Errorf("%v", err)
		}
	}
}

// Without a network of its own a command's port would be one of this machine, and
// publishing could lead to any program's.
func TestPublishLandlock(t *testing.T) {
	sb := newSandbox(t, func(c *config.Config) { c.Linux = &config.Linux{Backend: config.BackendLandlock} })
	cmd := sb.Command(t.Context(), "true")
	cmd.Publish = []config.Publish{{Inside: 4001}}
	var start *StartError
	if err := cmd.Run(); !errors.As(err, &start) || !strings.Contains(err.Error(), "no network of its own") || start.Cure == "" {
		t.Errorf("%v", err)
	}
}

// hostService is a service on this machine's loopback, and a port without one.
func hostService(t *testing.T) (port, other int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go echo(ln)
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	go echo(second)
	return ln.Addr().(*net.TCPAddr).Port, second.Addr().(*net.TCPAddr).Port
}

// A published port is the command's own: it does not become a way from outside to
// a service of this machine that the command may reach.
func TestPublishDoesNotLeadOut(t *testing.T) {
	port, _ := hostService(t)
	address := "127.0.0.1:" + strconv.Itoa(port)
	sb := newSandbox(t, func(c *config.Config) {
		c.Network.AllowedDomains = []string{address, "localhost:" + strconv.Itoa(port)}
	})
	control := runInside(t, sb, "visit", address)
	if out, err := control.Output(); err != nil || !strings.Contains(string(out), "served at "+address) {
		t.Fatalf("without publishing: %q, %v", out, err)
	}
	cmd := runInside(t, sb, "visit", address, "localhost:"+strconv.Itoa(port), address)
	cmd.Publish = []config.Publish{{Inside: port}}
	if out, err := cmd.Output(); err != nil || strings.Count(string(out), "failed: connection refused") != 3 {
		t.Errorf("inside: %q, %v", out, err)
	}
	cmd = runInside(t, sb, "serve", "1h")
	cmd.Publish = []config.Publish{{Inside: port}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", cmd.Published()[0].Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if n, _ := conn.Read(make([]byte, 100)); n > 0 {
		t.Error("the service of this machine answered")
	}
	_ = cmd.Kill()
	_ = cmd.Wait()
}

// network.allowHostPorts: programs with and without a proxy reach these ports of
// this machine's loopback and no others, whatever the other settings are.
func TestHostPorts(t *testing.T) {
	port, other := hostService(t)
	off := false
	for name, change := range map[string]func(*config.Config){
		"nothing else": func(*config.Config) {},
		"with hosts":   func(c *config.Config) { c.Network.AllowedDomains = []string{"a.invalid"} },
		"strict": func(c *config.Config) {
			c.Network.AllowedDomains, c.Network.StrictAllowlist = []string{"a.invalid"}, true
		},
		"by proxy only":  func(c *config.Config) { c.Network.AllowedDomains, c.Network.Transparent = []string{"a.invalid"}, &off },
		"Unix sockets":   func(c *config.Config) { c.Network.AllowAllUnixSockets = true },
		"nested":         func(c *config.Config) { c.AllowNestedUserNamespaces = true },
		"foreign filter": func(c *config.Config) { c.Network.SOCKSProxyPort = other },
	} {
		t.Run(name, func(t *testing.T) {
			withBackend(t, func(t *testing.T, backend string) {
				if backend == config.BackendLandlock && name == "nested" {
					t.Skip("needs namespaces")
				}
				sb := newSandbox(t, func(c *config.Config) {
					c.Linux, c.Network.AllowHostPorts = &config.Linux{Backend: backend}, []int{port}
					change(c)
				})
				good, bad := "127.0.0.1:"+strconv.Itoa(port), "127.0.0.1:"+strconv.Itoa(other)
				byName := "localhost:" + strconv.Itoa(port)
				cmd := runInside(t, sb, "visit", good, byName, "proxy!"+good, "proxy!"+byName, bad, "proxy!"+bad, "192.0.2.1:"+strconv.Itoa(port), good)
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(string(out), "served at 127.0.0.1:"+strconv.Itoa(port)); n != 5 {
					t.Errorf("reached %d times of 5:\n%s", n, out)
				}
				if strings.Contains(string(out), "served at "+bad) || !strings.Contains(string(out), "\n"+bad+" failed: connection refused") || !strings.Contains(string(out), "403") {
					t.Errorf("the other port:\n%s", out)
				}
				if !strings.Contains(string(out), "192.0.2.1:"+strconv.Itoa(port)+" failed") {
					t.Errorf("the other address:\n%s", out)
				}
				if v := cmd.Violations(); len(v) == 0 || v[0].Setting != fmt.Sprintf("add %d to network.allowHostPorts", other) {
					t.Errorf("recorded: %+v", v)
				}
			}, config.BackendNative, config.BackendBubblewrap, config.BackendLandlock)
		})
	}
}

// deniedDomains wins, whatever name of this machine it has; the refusal says so.
func TestHostPortsDenied(t *testing.T) {
	port, _ := hostService(t)
	address := "127.0.0.1:" + strconv.Itoa(port)
	for _, deny := range []string{"127.0.0.1", "localhost", "[::1]:" + strconv.Itoa(port), "*:" + strconv.Itoa(port)} {
		withBackend(t, func(t *testing.T, backend string) {
			sb := newSandbox(t, func(c *config.Config) {
				c.Linux = &config.Linux{Backend: backend}
				c.Network.AllowHostPorts, c.Network.DeniedDomains = []int{port}, []string{deny}
			})
			cmd := runInside(t, sb, "visit", address, "proxy!"+address, "proxy!localhost:"+strconv.Itoa(port))
			out, err := cmd.Output()
			if err != nil || strings.Contains(string(out), "served") {
				t.Errorf("%s: %q, %v", deny, out, err)
			}
			v := cmd.Violations()
			if len(v) != 3 {
				t.Errorf("%s: %d refusals recorded: %+v", deny, len(v), v)
			}
			for _, v := range v {
				if !strings.HasPrefix(v.Rule, "network.deniedDomains[0]") {
					t.Errorf("%s: %+v", deny, v)
				}
			}
		}, config.BackendNative, config.BackendLandlock)
	}
}

// Decision 22: a server of the command's own comes before the one outside.
func TestHostPortsOwnServer(t *testing.T) {
	port, _ := hostService(t)
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowHostPorts = []int{port} })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wildcard := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)).String()
	cmd := sb.Shell(t.Context(), `SRT_TEST_UP=up SRT_TEST_COMMAND=serve "$0" 0s "$1" & until test -e up; do sleep 0.02; done; SRT_TEST_COMMAND=visit "$0" "$2"; kill $!; wait; SRT_TEST_COMMAND=visit "$0" "$2"`,
		exe, wildcard, "127.0.0.1:"+strconv.Itoa(port))
	cmd.Dir, cmd.Stderr = workDir(t), os.Stderr
	out, err := cmd.Output()
	outside := fmt.Sprintf("127.0.0.1:%[1]d served at 127.0.0.1:%[1]d\n", port)
	first, second, _ := strings.Cut(string(out), "\n")
	if err != nil || !strings.Contains(first, "served at ") || first+"\n" == outside || second != outside {
		t.Errorf("%q, %v; want the command's own server, then %q", out, err, outside)
	}
}

// Many connections at once reach a service outside.
func TestHostPortsMany(t *testing.T) {
	port, _ := hostService(t)
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowHostPorts = []int{port} })
	if out, err := runInside(t, sb, "burst", "100", "127.0.0.1:"+strconv.Itoa(port)).Output(); err != nil || string(out) != "100\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// misbehaveInside is a server at four ports: one that works, one that never
// accepts, one that breaks every connection, one that says more than anybody reads.
func misbehaveInside([]string) int {
	silent, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(silent, &syscall.SockaddrInet4{Port: 4002, Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(silent, 0))
	}
	breaking, err2 := net.Listen("tcp", "127.0.0.1:4003")
	talking, err3 := net.Listen("tcp", "127.0.0.1:4004")
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, "misbehaving:", err)
		return 1
	}
	each := func(ln net.Listener, do func(net.Conn)) {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go do(conn)
		}
	}
	go each(breaking, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() })
	go each(talking, func(c net.Conn) {
		for err := error(nil); err == nil; {
			_, err = c.Write(make([]byte, 1<<16))
		}
	})
	return serveInside([]string{"0s", "127.0.0.1:4001"})
}

// Servers that misbehave, a port that nobody serves and strangers who connect
// without end keep neither a good server from its clients nor srt-init from its
// work, and leave nothing behind.
func TestPublishHostile(t *testing.T) {
	sb := newSandbox(t, nil)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := sb.Shell(t.Context(), `SRT_TEST_COMMAND=misbehave "$0" & read x; for i in {1..60}; do mkdir d$i; touch .bashrc 2>/dev/null; done; echo worked; read x; kill $!`, exe)
	in, err := newPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	var out safeBuffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = workDir(t), in.r, &out, os.Stderr
	for port := range 5 {
		cmd.Publish = append(cmd.Publish, config.Publish{Inside: 4001 + port})
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ports := cmd.Published()
	if _, _, err := exchange(ports[0].Addr.String(), "up"); err != nil {
		t.Fatal(err)
	}
	var clients []net.Conn
	for range 150 {
		for _, p := range ports[1:] {
			conn, err := net.Dial("tcp", p.Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, conn)
		}
	}
	_, _ = io.WriteString(in.w, "go\n")
	for i := range 20 {
		before := time.Now()
		if _, back, err := exchange(ports[0].Addr.String(), "text"); err != nil || back != "TEXT" {
			t.Errorf("connection %d: %q, %v", i, back, err)
		}
		if took := time.Since(before); took > 5*time.Second {
			t.Errorf("connection %d took %v", i, took)
		}
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), "worked"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command gets nothing done")
		}
	}
	for _, c := range clients {
		c.Close()
	}
	_, _ = io.WriteString(in.w, "end\n")
	_ = cmd.Wait() // killed or not: the server has no good end
	if v := cmd.Violations(); len(v) == 0 {
		t.Error("the guard reported nothing")
	}
}

type testPipe struct{ r, w *os.File }

func newPipe(t *testing.T) (p testPipe, err error) {
	p.r, p.w, err = os.Pipe()
	t.Cleanup(func() { p.r.Close(); p.w.Close() })
	return p, err
}

// safeBuffer is a buffer that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A service that listens on one loopback address only is reached at the other, too:
// a program need not know which. Without a service connections are refused, so that
// waiting for it works.
func TestHostPortsOneAddress(t *testing.T) {
	first := "127.0.0.1:0"
	if haveIPv6() {
		first = "[::1]:0"
	}
	ln, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	go echo(ln)
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowHostPorts = []int{port} })
	addresses := []string{fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("localhost:%d", port)}
	if haveIPv6() {
		addresses = append(addresses, fmt.Sprintf("[::1]:%d", port))
	}
	if out, err := runInside(t, sb, "visit", addresses...).Output(); err != nil || strings.Count(string(out), "served at "+ln.Addr().String()) != len(addresses) {
		t.Errorf("%q, %v", out, err)
	}
	ln.Close()
	cmd := runInside(t, sb, "visit", addresses...)
	if out, err := cmd.Output(); err != nil || strings.Count(string(out), "failed: connection refused") != len(addresses) {
		t.Errorf("without a service: %q, %v", out, err)
	}
	if v := cmd.Violations(); len(v) != 0 {
		t.Errorf("recorded: %+v", v)
	}

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = sb.Shell(t.Context(), `until SRT_TEST_COMMAND=visit "$0" "$1" | grep served; do touch waits; sleep 0.05; done`, exe, addresses[0])
	cmd.Dir = workDir(t)
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(cmd.Dir + "/waits"); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			defer ln.Close()
			if conn, err := ln.Accept(); err == nil {
				fmt.Fprintln(conn, "served late")
				conn.Close()
			}
		}
	}()
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "served late") {
		t.Errorf("waiting: %q, %v", out, err)
	}
}
