package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
)

func controlFor(t *testing.T, path string) (*control, *bytes.Buffer) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	var said bytes.Buffer
	c, err := openControl(int(f.Fd()), newMessages(&said, false))
	if err != nil {
		t.Fatal(err)
	}
	if c.sb, err = srt.New(t.Context(), config.Default()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.sb.Close() })
	return c, &said
}

// cli 41: an error before the first line is reported as one. The start of a
// process's memory is never mapped, so reading it fails.
func TestControlReadError(t *testing.T) {
	c, _ := controlFor(t, "/proc/self/mem")
	if err := c.read(); err == nil || c.lines != 0 {
		t.Errorf("%v after %d lines", err, c.lines)
	}
}

// cli 42: a line replaces the configuration, it is not merged with the last.
func TestControlReplaces(t *testing.T) {
	path := t.TempDir() + "/lines"
	long := strings.Repeat("x", maxControlLine+10)
	text := `{"network":{"allowedDomains":["a.b"],"deniedDomains":["c.d"],"strictAllowlist":true},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}` + "\n" +
		long + "\n" + `{"network":{"allowedDomains":["e.f"],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, said := controlFor(t, path)
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	n := c.sb.Config().Network
	if len(n.AllowedDomains) != 1 || n.AllowedDomains[0] != "e.f" || len(n.DeniedDomains) != 0 || n.StrictAllowlist {
		t.Errorf("%+v", n)
	}
	if strings.Count(said.String(), "ignored an invalid configuration") != 1 {
		t.Errorf("%q", said.String())
	}
}
