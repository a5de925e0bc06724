package srt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// Questions, accesses, warnings and updates pass between the two processes.
func TestArgvConversation(t *testing.T) {
	port := loopbackServer(t)
	var mu sync.Mutex
	var said []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
	}
	sb := newSandbox(t, func(c *config.Config) {
		c.Filesystem.AllowWrite = append(c.Filesystem.AllowWrite, config.PathEntry{Path: "*.nothing"})
		c.Network.DeniedDomains = []string{"127.0.0.3"}
	}, WithAsk(func(_ context.Context, q AskRequest) (AskDecision, error) {
		note("asked %s:%d", q.Host, q.Port)
		if q.Host == "127.0.0.9" {
			panic("no")
		}
		return AskDecision{Allow: q.Host == "127.0.0.1", Reason: "because"}, nil
	}), WithAccess(func(a Access) { note("access %s %v %s", a.Host, a.Allowed, a.CommandID) }),
		WithWarnings(func(text string) { note("warning %s", text) }))
	cmd := sb.Shell(t.Context(), connectScript, "x", "127.0.0.1:"+port, "127.0.0.2:9", "127.0.0.3:9", "127.0.0.4:9", "127.0.0.9:9")
	cmd.AllowDomains = []string{"127.0.0.4"}
	out, err := spawn(t, cmd).Output()
	mustDo(t, err)
	mustDo(t, cmd.Wait())
	for _, want := range []string{"127.0.0.1:" + port + " 200", "127.0.0.2:9 403 because", "127.0.0.3:9 403", "127.0.0.4:9 502", "127.0.0.9:9 403 permission prompt failed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"asked 127.0.0.1:" + port, "asked 127.0.0.2:9", "access 127.0.0.1 true " + cmd.ID(), "access 127.0.0.3 false " + cmd.ID()} {
		if !slices.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "warning ") && strings.Contains(s, "*.nothing") }) {
		t.Errorf("no warning: %q", said)
	}
	if v := cmd.Violations(); len(v) < 2 {
		t.Errorf("violations %+v", v)
	}
}

// An update reaches a command that runs.
func TestArgvUpdate(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Shell(t.Context(), `until [ -n "$allowed" ]; do `+connectScript+` | grep -q 502 && allowed=1; sleep 0.02; done`, "x", "127.0.0.5:9")
	p := spawn(t, cmd)
	mustDo(t, p.Start())
	cfg := sb.Config()
	cfg.Network.AllowedDomains = []string{"127.0.0.5"}
	mustDo(t, sb.Update(cfg))
	mustDo(t, cmd.Wait())
	mustDo(t, p.Wait())
}
