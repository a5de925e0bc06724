package srt

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

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

// A service that listens on one loopback address only is reached at the other, too:
// a program need not know which. Without a service connections are refused, so that
// waiting for it works.
func TestHostPortsOneAddress(t *testing.T) {
	port, err := strconv.Atoi(testutil.ReservedPort(t))
	if err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprintf("127.0.0.1:%d", port)
	if haveIPv6() {
		first = fmt.Sprintf("[::1]:%d", port)
	}
	ln, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
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
