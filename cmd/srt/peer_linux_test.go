package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// The tests of this file run programs that people use, as they are, against
// servers of the test. The servers' names exist only for the upstream proxy that
// srt is given, so every connection is known to have gone through the filter.

// peerWay is how a program gets out of the sandbox.
type peerWay struct {
	name string
	// proxies says that programs are told of the proxies, and have no other way.
	proxies bool
	change  func(*config.Config)
	// before runs in the shell ahead of the client.
	before string
}

// forgetProxies takes every variable away that could tell a program of a proxy.
const forgetProxies = `for v in $(env | cut -d= -f1 | grep -i '_proxy$\|^CLOUDSDK_\|^GIT_SSH_COMMAND$\|^JAVA_TOOL_OPTIONS$\|^DOCKER_'); do unset "$v"; done; `

func peerWays() []peerWay {
	off := false
	return []peerWay{
		{"variables", true, func(c *config.Config) { c.Network.Transparent = &off }, ""},
		{"transparent", false, func(*config.Config) {}, forgetProxies},
		{"landlock", true, func(c *config.Config) { c.Linux = &config.Linux{Backend: config.BackendLandlock} }, ""},
	}
}

// peer is one program: a script for bash that prints what want says.
type peer struct {
	name   string
	needs  []string // programs
	script string
	want   []string
	// only is "proxies" or "transparent" where the other makes no sense.
	only string
	// slow programs run only the ways that differ for them.
	slow bool
	// check tells why a user cannot use the program here, or nothing.
	check func(uid int) string
}

// TestPeers runs each program each way, as every kind of user.
func TestPeers(t *testing.T) {
	world := newPeerWorld(t)
	for _, uid := range users() {
		for _, way := range peerWays() {
			for _, p := range peerPrograms() {
				if p.slow && (way.name == "landlock" || raceEnabled) {
					continue
				}
				if p.only != "" && (p.only == "proxies") != way.proxies {
					continue
				}
				t.Run(fmt.Sprintf("uid%d/%s/%s", uid, way.name, p.name), func(t *testing.T) {
					t.Parallel()
					world.try(t, uid, way, p)
				})
			}
		}
	}
}

func (w *peerWorld) try(t *testing.T, uid int, way peerWay, p peer) {
	if way.name == "landlock" && inside.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	for _, need := range p.needs {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("%s is not installed", need)
		}
	}
	if p.check != nil {
		if why := p.check(uid); why != "" {
			t.Skip(why)
		}
	}
	s := w.sandboxed(t, uid, way)
	out, errs := w.run(t, s, way.before+p.script)
	for _, want := range p.want {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the output\n%s\nerrors\n%s", want, out, errs)
		}
	}
}

// sandboxed is a directory with settings that allow the world's host.
func (w *peerWorld) sandboxed(t *testing.T, uid int, way peerWay) *sandboxed {
	cfg := config.Default()
	cfg.Network.AllowedDomains = []string{peerHost}
	cfg.Network.DeniedDomains = []string{"denied.test:22"}
	cfg.Network.DeniedDomainReasons = map[string]string{"denied.test:22": "use an https:// remote"}
	parent := "http://peer:secret@" + w.parent
	cfg.Network.ParentProxy = &config.ParentProxy{HTTP: &parent, NoProxy: new(string)}
	cfg.Filesystem.AllowWrite = []config.PathEntry{{Path: "."}}
	way.change(cfg)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := newSandboxed(t, uid, string(text))
	if err := os.WriteFile(filepath.Join(s.dir, "ca.pem"), w.authority, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a script in the sandbox.
func (w *peerWorld) run(t *testing.T, s *sandboxed, script string) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testutil.Patience)
	defer cancel()
	base := s.command("bash", "-c", script)
	cmd := exec.CommandContext(ctx, base.Path, base.Args[1:]...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = base.Dir, base.SysProcAttr, base.Env
	cmd.Env = append(cmd.Env, "PATH="+peerPath(), "RUSTUP_HOME="+rustupHome(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"WEB="+w.web, "TLS="+w.tls, "PLAIN="+strings.TrimPrefix(w.web, "http://"), "PEER="+s.binaryCalled("peer"), "SRT="+s.binary)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Logf("the sandbox ended with %v", err)
	}
	return stdout.String(), stderr.String()
}

// peerHost is the name of every server of the world.
const peerHost = "peer.test"

// upstreamProxy is the proxy between srt and the world: the only one who knows
// what the world's names mean. It wants credentials.
func upstreamProxy(t *testing.T) (address string) {
	t.Helper()
	cfg := config.Default()
	cfg.Network.AllowedDomains = []string{peerHost, "127.0.0.1"}
	hosts, err := policy.NewHosts(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := proxy.New(hosts, proxy.Options{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != peerHost {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	ln := testutil.Listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, proxy.Invocation{Token: "secret"}) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
