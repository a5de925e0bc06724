package srt

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// connectScript asks the proxy for a tunnel to each argument and prints the
// status. Nobody listens at the other end: what is allowed gives 502.
const connectScript = `for to; do
exec 3<>/dev/tcp/127.0.0.1/3128
printf 'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' "$to" >&3
IFS= read -r line <&3; line=${line#HTTP/1.1 }; echo "$to ${line%?}"
exec 3>&-
done`

// loopbackServer says "outside" to whoever connects, and returns its port.
func loopbackServer(t *testing.T) string {
	ln := testutil.Listen(t)
	testutil.Serve(t, ln, func(conn net.Conn) { _, _ = io.WriteString(conn, "outside") })
	return testutil.Port(ln)
}

func connects(t *testing.T, cmd *Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// network 50, 51, 54: a command's own list holds for it alone, below the deny
// list and before the question, and is copied when it starts.
func TestOwnHosts(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	sb := newSandbox(t, func(c *config.Config) {
		c.Network.AllowedDomains, c.Network.DeniedDomains = []string{"127.0.0.4"}, []string{"127.0.0.2"}
	}, WithAsk(func(_ context.Context, q AskRequest) (AskDecision, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q.Host+" "+q.Spelling+" "+q.CommandID)
		return AskDecision{}, nil
	}))
	all := []string{"x", "127.0.0.1:9", "127.0.0.1:10", "127.0.0.2:9", "127.0.0.4:9"}
	own := sb.Shell(t.Context(), "sleep 0.2; "+connectScript, all...)
	own.AllowDomains = []string{"127.1:9", "127.0.0.2"}
	var out bytes.Buffer
	own.Stdout = &out
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	own.AllowDomains[0] = "127.0.0.1:10"
	if err := own.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := "127.0.0.1:9 502 Bad Gateway\n127.0.0.1:10 403 user denied\n127.0.0.2:9 403 host is on the deny list\n127.0.0.4:9 502 Bad Gateway\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
	other := sb.Shell(t.Context(), connectScript, "x", "127.1:9")
	if got := connects(t, other); got != "127.1:9 403 user denied\n" {
		t.Errorf("%s", got)
	}
	if want := []string{"127.0.0.1 127.0.0.1 " + own.ID(), "127.0.0.1 127.1 " + other.ID()}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if got := sb.Config().Network.AllowedDomains; !slices.Equal(got, []string{"127.0.0.4"}) {
		t.Errorf("the list shows in the settings: %q", got)
	}
}

// cli 70, network 41, 51, 52: under strictAllowlist there are neither own lists nor
// questions, which is said; entries are checked as those of the settings.
func TestOwnHostsRefused(t *testing.T) {
	var mu sync.Mutex
	var warned []string
	sb := newSandbox(t, func(c *config.Config) { c.Network.StrictAllowlist = true },
		WithAsk(func(context.Context, AskRequest) (AskDecision, error) {
			t.Error("asked")
			return AskDecision{Allow: true}, nil
		}), WithWarnings(func(s string) { mu.Lock(); defer mu.Unlock(); warned = append(warned, s) }))
	cmd := sb.Shell(t.Context(), connectScript, "x", "127.0.0.1:9")
	cmd.AllowDomains = []string{"127.0.0.1"}
	if got := connects(t, cmd); got != "127.0.0.1:9 403 host is not on the allow list\n" {
		t.Errorf("%s", got)
	}
	if v := cmd.Violations(); len(v) != 1 || v[0].Setting != `add 9 to network.allowHostPorts, or unset network.strictAllowlist, which switches the command's own list off` {
		t.Errorf("%+v", v)
	}
	if text := strings.Join(warned, "\n"); text != "nobody is asked about hosts: network.strictAllowlist is set\nthe command's own list of hosts has no effect: network.strictAllowlist is set" {
		t.Errorf("%s", text)
	}
	for _, bad := range []string{"*.com", "*", "a b.test", "::1", ""} {
		cmd := sb.Command(t.Context(), "true")
		cmd.AllowDomains = []string{"good.test", bad}
		if err := cmd.Run(); err == nil || bad != "" && !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// network 43, 144: the question's context ends with the sandbox, whatever the
// callback does.
func TestAskEndsWithSandbox(t *testing.T) {
	asked, ended := make(chan AskRequest, 1), make(chan struct{})
	sb := newSandbox(t, nil, WithAsk(func(ctx context.Context, q AskRequest) (AskDecision, error) {
		asked <- q
		<-ctx.Done()
		close(ended)
		return AskDecision{Allow: true}, nil
	}))
	cmd := sb.Shell(t.Context(), connectScript, "x", "Off.Test.:443")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if q := <-asked; q.Host != "off.test" || q.Spelling != "Off.Test." || q.Port != 443 || q.CommandID != cmd.ID() || !strings.Contains(q.Command, "/dev/tcp") {
		t.Errorf("%+v", q)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if v := sb.Violations(); len(v) != 0 {
		t.Errorf("%+v", v)
	}
}

// A command's own list opens a listed port of this machine, too.
func TestOwnLoopbackPort(t *testing.T) {
	port := loopbackServer(t)
	sb := newSandbox(t, nil)
	cmd := sb.Shell(t.Context(), `exec 3<>/dev/tcp/127.0.0.1/$0 && cat <&3`, port)
	cmd.AllowDomains = []string{"localhost:" + port}
	if out, err := cmd.Output(); err != nil || string(out) != "outside" {
		t.Errorf("%q %v", out, err)
	}
	if out, err := sb.Shell(t.Context(), `exec 3<>/dev/tcp/127.0.0.1/$0 && cat <&3`, port).Output(); err == nil || len(out) > 0 {
		t.Errorf("without the list: %q", out)
	}
}

// Each decision is told to the function and to the log; both are complete after Close.
func TestAccessLog(t *testing.T) {
	var mu sync.Mutex
	var told []Access
	var log bytes.Buffer
	port := loopbackServer(t)
	sb := newSandbox(t, func(c *config.Config) { c.Network.AllowedDomains = []string{"127.0.0.1:" + port} },
		WithAccess(func(a Access) { mu.Lock(); defer mu.Unlock(); told = append(told, a) }), WithAccessLog(&log))
	cmd := sb.Shell(t.Context(), `p=$1; shift; `+connectScript+`; exec 3<>/dev/tcp/127.0.0.1/$p && cat <&3`, "x", port, "127.0.0.1:"+port, "off.test:443")
	if got := connects(t, cmd); got != "127.0.0.1:"+port+" 200 Connection Established\noff.test:443 403 host is not on the allow list\noutside" {
		t.Errorf("%s", got)
	}
	if err := sb.Close(); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Invocation, Frontend, Host, Address, Verdict, Setting string
		Received                                              int64
	}
	var lines []line
	for text := range strings.Lines(log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if l.Frontend == "connect" {
			l.Received = 0 // its client leaves at once
		}
		lines = append(lines, l)
	}
	want := []line{
		{cmd.ID(), "connect", "127.0.0.1", "127.0.0.1:" + port, "allow", "", 0},
		{cmd.ID(), "connect", "off.test", "", "deny", `add "off.test" to network.allowedDomains`, 0},
		{cmd.ID(), "transparent", "127.0.0.1", "127.0.0.1:" + port, "allow", "", 7},
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Frontend+a.Host, b.Frontend+b.Host) })
	if !slices.Equal(lines, want) || len(told) != 3 {
		t.Errorf("%d told, logged %s", len(told), log.String())
	}
}
