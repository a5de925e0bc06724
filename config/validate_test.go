package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateProgrammatic(t *testing.T) {
	for name, c := range map[string]*Config{"the defaults": Default(), "the zero value has empty lists": {}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := Parse(data)
		if err != nil || !cmp.Equal(back, Default()) {
			t.Errorf("%s read back: %v\n%s", name, err, data)
		}
	}
	url := "socks4://h:1"
	for want, c := range map[string]*Config{
		"(root): is required":               nil,
		"network.allowedDomains.0":          {Network: Network{AllowedDomains: []string{"*.com"}}},
		"network.deniedDomains.1":           {Network: Network{DeniedDomains: []string{"*", "com"}}},
		"filesystem.denyRead.0":             {Filesystem: Filesystem{DenyRead: []PathEntry{{Literal: true}}}},
		"mandatoryDenySearchDepth":          {MandatoryDenySearchDepth: 99},
		"network.httpProxyPort":             {Network: Network{HTTPProxyPort: -1}},
		"network.mitmProxy.domains":         {Network: Network{MITMProxy: &MITMProxy{SocketPath: "/s"}}},
		"network.mitmProxy.socketPath":      {Network: Network{MITMProxy: &MITMProxy{Domains: []string{"a.b"}}}},
		"parentProxy.https: the scheme":     {Network: Network{ParentProxy: &ParentProxy{HTTPS: &url}}},
		"deniedDomainReasons.x: must not":   {Network: Network{DeniedDomainReasons: map[string]string{"x": "", "a": "b"}}},
		"caCertPath and caKeyPath":          {Network: Network{TLSTerminate: &TLSTerminate{CACertPath: "/c"}}},
		"filesystem.denyWrite.0: the":       {Filesystem: Filesystem{DenyWrite: []PathEntry{{Path: "/x/*/"}}}},
		"filesystem.denyRead.0: not valid":  {Filesystem: Filesystem{DenyRead: []PathEntry{{Path: "/x\xff"}}}},
		"git.safeDirectories.0: not valid":  {Git: &GitOptions{SafeDirectories: []string{"\xff"}}},
		`ignoreViolations."\xff": not`:      {IgnoreViolations: map[string][]string{"\xff": {}}},
		"credentials.envVars.0.name":        {Credentials: &Credentials{EnvVars: []CredentialEnv{{Mode: "deny"}}}},
		"credentials.files.0.mode":          {Credentials: &Credentials{Files: []CredentialFile{{Path: "/x"}}}},
		"credentials.files.0.maskClaims":    {Credentials: &Credentials{Files: []CredentialFile{{Path: "/x", Mode: "deny", Decode: "jwt", MaskClaims: []string{}}}}},
		"bwrapPath: must be an absolute":    {BwrapPath: "bwrap"},
		"windows.proxyPortRange: must be [": {Windows: &Windows{ProxyPortRange: []int{1}}},
	} {
		err := c.Validate()
		var invalid *Error
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// Messages about maps must not change from run to run.
func TestIssuesInFixedOrder(t *testing.T) {
	c := &Config{Network: Network{DeniedDomainReasons: map[string]string{"c": "", "a": "", "b": "", "d": ""}}}
	first := c.Validate().Error()
	for range 20 {
		if again := c.Validate().Error(); again != first {
			t.Fatalf("%s\n%s", first, again)
		}
	}
}

// A copy shares nothing with the original.
func TestClone(t *testing.T) {
	text := "p:1"
	c := Default()
	c.Network.ParentProxy = &ParentProxy{HTTP: &text}
	c.Network.DeniedDomainReasons = map[string]string{"a": "b"}
	c.IgnoreViolations = map[string][]string{"*": {"x"}}
	c.Filesystem.DenyRead = []PathEntry{{Path: "a"}}
	copied := c.Clone()
	if diff := cmp.Diff(c, copied); diff != "" {
		t.Fatalf("the copy differs:\n%s", diff)
	}
	*copied.Network.ParentProxy.HTTP = "q:1"
	copied.Network.DeniedDomainReasons["a"] = "c"
	copied.IgnoreViolations["*"][0] = "y"
	copied.Filesystem.DenyRead[0].Path = "b"
	if text != "p:1" || c.Network.DeniedDomainReasons["a"] != "b" || c.IgnoreViolations["*"][0] != "x" || c.Filesystem.DenyRead[0].Path != "a" {
		t.Errorf("a change of the copy changed the original: %+v", c)
	}
}

// Entries are handed back in the form they were written.
func TestEntriesKeepTheirForm(t *testing.T) {
	const text = `["~/x",{"path":"/a*","literal":true},"./b/../c/"]`
	var entries []PathEntry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		t.Fatal(err)
	}
	if back, err := json.Marshal(entries); err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
	for _, bad := range []string{`""`, `7`, `{"path":"a"}`, `{"path":"a","literal":true,"literal":true}`, `"\ud800"`} {
		var e PathEntry
		if err := json.Unmarshal([]byte(bad), &e); err == nil {
			t.Errorf("%s became %+v", bad, e)
		}
	}
}

// Inert patterns on both kinds of systems, config 47 and 48.
func TestInert(t *testing.T) {
	for _, c := range []struct {
		goos, path string
		want       bool
	}{
		{"linux", "/data/*/", true}, {"linux", "~x*/", true}, {"linux", "/e/]/", true}, {"linux", "b/*/", false}, {"linux", "/d/[", false}, {"linux", "/a/", false}, {"linux", `/a*\`, false}, {"linux", "", false},
		{"windows", `C:\data\*\`, true}, {"windows", "c:/data/?/", true}, {"windows", `\\?\C:\data\`, false}, {"windows", `\\?\C:\d*\`, true}, {"windows", `~\x*\`, true},
		{"windows", `C:\[x]\`, false}, {"windows", `b\*\`, false}, {"windows", `\\host\share\*\`, true},
	} {
		if got := spellingOf(c.goos).inert(c.path); got != c.want {
			t.Errorf("%s on %s: %v", c.path, c.goos, got)
		}
	}
}
