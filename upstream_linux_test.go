package srt

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// curl runs it in the sandbox and returns what it printed.
func curl(t *testing.T, sb *Sandbox, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	cmd := sb.Command(t.Context(), "curl", append([]string{"-sS", "--max-time", "60"}, arguments...)...)
	cmd.Dir = workDir(t)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// The settings that concern requests reach the filter.
func TestRequestSettings(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Secret", "s")
		fmt.Fprint(w, "hello")
	}))
	defer web.Close()
	port := strings.TrimPrefix(web.URL, "http://127.0.0.1:")
	sb := newSandbox(t, func(c *config.Config) {
		c.Network.AllowedDomains = []string{"app.localhost:" + port}
		c.Network.RequireHostMatch, c.Network.RefuseOpaqueTunnels, c.Network.StripResponseHeaders = true, true, []string{"x_secret"}
	})
	url := "http://app.localhost:" + port + "/"
	for name, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"request":      {[]string{url}, "hello"},
		"other host":   {[]string{"-H", "Host: other.test", url}, "the Host header does not name the request's target\n"},
		"fields":       {[]string{"-D", "-", "-o", "/dev/null", url}, "!X-Secret"},
		"tunnel":       {[]string{"-p", url}, "CONNECT tunnel failed, response 403"},
		"SOCKS tunnel": {[]string{"-x", "socks5h://localhost:1080", url}, "(2)"},
	} {
		got := curl(t, sb, append([]string{"--noproxy", ""}, c.arguments...)...)
		if absent, ok := strings.CutPrefix(c.want, "!"); ok && strings.Contains(got, absent) || !ok && !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := curl(t, sb, "--noproxy", "*", url); strings.Contains(got, "hello") {
		t.Errorf("a connection without a proxy: %q", got)
	}
}

// socketProxy is a MITM proxy that answers in the place of every server.
func socketProxy(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	testutil.Serve(t, ln, func(conn net.Conn) {
		if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nintercepted %s %s", r.Method, r.URL)
		}
	})
	return path
}

// network 84: a MITM proxy gets the connections of its hosts and only those, and
// can be named while the sandbox is there. A command cannot reach its socket.
func TestMITMProxy(t *testing.T) {
	path := socketProxy(t)
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowedDomains = []string{"a.mitm.test", "b.test"} })
	cfg := sb.Config()
	cfg.Network.MITMProxy = &config.MITMProxy{SocketPath: path, Domains: []string{"*.mitm.test"}}
	if err := sb.Update(cfg); err != nil {
		t.Fatal(err)
	}
	for _, noproxy := range []string{"", "*"} {
		want := "intercepted GET http://a.mitm.test/x"
		if noproxy == "*" { // without a proxy it is a tunnel, whose first bytes answer the CONNECT
			want = "intercepted CONNECT //a.mitm.test:80"
		}
		if got := curl(t, sb, "--http0.9", "--noproxy", noproxy, "http://a.mitm.test/x"); !strings.Contains(got, want) {
			t.Errorf("noproxy %q: %q", noproxy, got)
		}
	}
	if got := curl(t, sb, "--noproxy", "", "http://b.test/"); !strings.Contains(got, "Bad Gateway") {
		t.Errorf("another host: %q", got)
	}
	if got := curl(t, sb, "--unix-socket", path, "http://a.mitm.test/"); strings.Contains(got, "intercepted") {
		t.Errorf("the socket is open to the command: %q", got)
	}
	cfg.Network.MITMProxy = nil
	if err := sb.Update(cfg); err != nil {
		t.Fatal(err)
	}
	if got := curl(t, sb, "--noproxy", "", "http://a.mitm.test/x"); !strings.Contains(got, "Bad Gateway") {
		t.Errorf("after the update: %q", got)
	}
}

// network 133, 134: what an external proxy serves goes there as it is, and the
// other port is still srt's own filter.
func TestExternalProxies(t *testing.T) {
	ln := testutil.Listen(t)
	external := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("credentials for an external proxy")
		}
		fmt.Fprintf(w, "external %s", r.URL)
	})}
	served := make(chan error, 1)
	go func() { served <- external.Serve(ln) }()
	defer func() { external.Close(); <-served }()
	told := make(chan Access, 10)
	sb := newSandbox(t, func(c *config.Config) { c.Network.HTTPProxyPort = ln.Addr().(*net.TCPAddr).Port }, WithAccess(func(a Access) { told <- a }))
	if got := curl(t, sb, "http://off.test/x"); got != "external http://off.test/x" {
		t.Errorf("%q", got)
	}
	if a := <-told; a.Protocol != "external" || a.Via != "external" || a.Address != ln.Addr().String() || a.Rule != "network.httpProxyPort" || a.Sent == 0 || a.Received == 0 || a.CommandID == "" {
		t.Errorf("%+v", a)
	}
	if got := curl(t, sb, "-x", "socks5h://localhost:1080", "http://off.test/"); !strings.Contains(got, "(2)") {
		t.Errorf("SOCKS is not srt's own: %q", got)
	}
	socks := socksServer(t)
	sb = newSandbox(t, func(c *config.Config) { c.Network.SOCKSProxyPort = socks })
	if got := curl(t, sb, "-x", "socks5h://localhost:1080", "http://off.test/"); got != "external SOCKS" {
		t.Errorf("%q", got)
	}
	if got := curl(t, sb, "http://off.test/"); !strings.Contains(got, "Connection blocked by network allowlist") {
		t.Errorf("HTTP is not srt's own: %q", got)
	}
}

// socksServer lets everybody in and answers in the place of every server.
func socksServer(t *testing.T) (port int) {
	t.Helper()
	ln := testutil.Listen(t)
	testutil.Serve(t, ln, serveSOCKSOnce)
	return ln.Addr().(*net.TCPAddr).Port
}

func serveSOCKSOnce(conn net.Conn) {
	r := bufio.NewReader(conn)
	greeting := make([]byte, 2)
	if _, err := io.ReadFull(r, greeting); err != nil {
		return
	}
	_, _ = r.Discard(int(greeting[1]))
	_, _ = conn.Write([]byte{5, 0})
	request := make([]byte, 5) // of a name, which has its length before it
	if _, err := io.ReadFull(r, request); err != nil {
		return
	}
	_, _ = r.Discard(int(request[4]) + 2)
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	if _, err := http.ReadRequest(r); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nexternal SOCKS")
	}
}

// A parent proxy comes from the settings or from srt's own environment; one that
// fails is said to whoever runs srt.
func TestParentProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "") // as t.Setenv restores it
		os.Unsetenv(name)
	}
	var warned []string
	warnings := WithWarnings(func(s string) { warned = append(warned, s) })
	parent := fmt.Sprint("socks5h://127.0.0.1:", socksServer(t))
	sb := newSandbox(t, func(c *config.Config) {
		c.Network.AllowedDomains, c.Network.DeniedResolvedAddresses = []string{"a.test"}, []string{"10.0.0.0/8"}
		c.Network.ParentProxy = &config.ParentProxy{HTTP: &parent}
	}, warnings)
	for _, noproxy := range []string{"", "*"} {
		if got := curl(t, sb, "--noproxy", noproxy, "http://a.test/"); got != "external SOCKS" {
			t.Errorf("noproxy %q: %q", noproxy, got)
		}
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "network.deniedResolvedAddresses does not hold") {
		t.Errorf("%q", warned)
	}
	warned = nil
	t.Setenv("HTTP_PROXY", "http://user:topsecret@127.0.0.1:1")
	sb = newSandbox(t, func(c *config.Config) { c.Network.AllowedDomains = []string{"a.test"} }, warnings)
	for range 2 {
		if got := curl(t, sb, "http://a.test/"); got != "Bad Gateway\nthe upstream proxy of the sandbox (HTTP_PROXY) did not open a connection\n" {
			t.Errorf("%q", got)
		}
	}
	want := `connecting through the parent proxy 127.0.0.1:1 (HTTP_PROXY): dial tcp 127.0.0.1:1: connect: connection refused; commands get "502 Bad Gateway" (check that the proxy runs, and its address and credentials)`
	if len(warned) != 1 || warned[0] != want {
		t.Errorf("%q", warned)
	}
}
