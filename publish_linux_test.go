package srt

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
)

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
