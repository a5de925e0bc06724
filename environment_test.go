package srt

import (
	"slices"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// cli 43, 50, network 131, 133, 134: every variable that tools know the proxy by.
// network 16, 20, 132: there are no user names and no tokens in them, because the
// listeners are the command's own.
func TestEnvironment(t *testing.T) {
	env := environment([]string{"PATH=/bin", "HTTP_PROXY=http://caller:1", "SRT_ALLOW_NESTED_USERNS=1", "FOO=secret", "JAVA_TOOL_OPTIONS=-Dx=y", "BASH_FUNC_f%%=() { :; }"},
		&config.Config{Credentials: &config.Credentials{EnvVars: []config.CredentialEnv{{Name: "FOO", Mode: "deny"}, {Name: "HTTP_PROXY", Mode: "deny"}}}}, "/t", "/opt/my srt")
	for _, want := range []string{
		"SANDBOX_RUNTIME=1", "TMPDIR=/t", "HTTP_PROXY=http://localhost:3128", "HTTPS_PROXY=http://localhost:3128", "http_proxy=http://localhost:3128", "https_proxy=http://localhost:3128",
		"ALL_PROXY=http://localhost:3128", "all_proxy=http://localhost:3128", "GRPC_PROXY=http://localhost:3128", "grpc_proxy=http://localhost:3128",
		"DOCKER_HTTP_PROXY=http://localhost:3128", "DOCKER_HTTPS_PROXY=http://localhost:3128", "FTP_PROXY=socks5h://localhost:1080", "ftp_proxy=socks5h://localhost:1080",
		"RSYNC_PROXY=localhost:1080", "CLOUDSDK_PROXY_TYPE=http", "CLOUDSDK_PROXY_ADDRESS=localhost", "CLOUDSDK_PROXY_PORT=3128",
		"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "PATH=/bin", "BASH_FUNC_f%%=() { :; }",
		`GIT_SSH_COMMAND=ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand=''\''/opt/my srt'\'' --srt-ssh-proxy %h %p'`,
	} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	joined := strings.Join(env, "\n")
	for _, gone := range []string{"secret", "caller", "SRT_ALLOW_NESTED_USERNS"} { // cli 46, linux 104
		if strings.Contains(joined, gone) {
			t.Errorf("%q is visible", gone)
		}
	}
	// cli 47, network 139, 140, 141: the caller's options come last and so win.
	if want := "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=localhost -Dhttp.proxyPort=3128 -Dhttps.proxyHost=localhost -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1] -Djava.io.tmpdir=/t -Dx=y"; !slices.Contains(env, want) {
		t.Errorf("no %s in %q", want, env)
	}
	if strings.Contains(joined, "GIT_CONFIG_PARAMETERS") || strings.Contains(joined, "CLOUDSDK_PROXY_USERNAME") || strings.Contains(joined, "@localhost") {
		t.Errorf("credentials where none are needed: %s", joined)
	}
	denied := environment([]string{"JAVA_TOOL_OPTIONS=-Dsecret=1", "GIT_CONFIG_PARAMETERS='a.b=c'"},
		&config.Config{Credentials: &config.Credentials{EnvVars: []config.CredentialEnv{{Name: "JAVA_TOOL_OPTIONS", Mode: "deny"}}}}, "", "")
	if joined := strings.Join(denied, "\n"); strings.Contains(joined, "secret") || !strings.Contains(joined, "GIT_CONFIG_PARAMETERS='a.b=c'") {
		t.Errorf("%s", joined)
	}
}

// git's options for ssh, such as the key to use, are the caller's; what leads through the
// proxy is added.
func TestGitSSHCommand(t *testing.T) {
	const ours = ` -o ControlMaster=no -o ControlPath=none -o ProxyCommand=''\''/srt'\'' --srt-ssh-proxy %h %p'`
	for inherited, want := range map[string]string{
		"ssh -i '/my key' -o IdentitiesOnly=yes": "ssh -i '/my key' -o IdentitiesOnly=yes", " /usr/bin/ssh -v ": "/usr/bin/ssh -v",
		"": "ssh", "plink -batch": "ssh", "ssh -v # why": "ssh", "ssh\ntrue": "ssh", "/opt/ssh-wrapper": "ssh",
	} {
		env := environment([]string{"GIT_SSH_COMMAND=" + inherited}, &config.Config{}, "", "/srt")
		if !slices.Contains(env, "GIT_SSH_COMMAND="+want+ours) {
			t.Errorf("with %q: %q", inherited, env)
		}
	}
	denied := &config.Config{Credentials: &config.Credentials{EnvVars: []config.CredentialEnv{{Name: "GIT_SSH_COMMAND", Mode: "deny"}}}}
	if env := environment([]string{"GIT_SSH_COMMAND=ssh -i /key"}, denied, "", "/srt"); !slices.Contains(env, "GIT_SSH_COMMAND=ssh"+ours) {
		t.Errorf("denied: %q", env)
	}
}

// JVMs do not read TMPDIR; their own variable has quotes, but no escapes.
func TestJavaTemporaryDirectory(t *testing.T) {
	for dir, want := range map[string]string{
		"": "", "/t": " -Djava.io.tmpdir=/t", "/my t": ` "-Djava.io.tmpdir=/my t"`, "/it's": ` "-Djava.io.tmpdir=/it's"`,
		`/a"b`: ` '-Djava.io.tmpdir=/a"b'`, `/a"b'c`: "",
	} {
		for _, kv := range environment(nil, &config.Config{}, dir, "") {
			value, ok := strings.CutPrefix(kv, "JAVA_TOOL_OPTIONS=")
			if _, got, _ := strings.Cut(value, "[::1]"); ok && got != want {
				t.Errorf("with %q: %q, want %q", dir, got, want)
			}
		}
	}
}

// Proxies on this machine are named where the settings have some; what an outer
// sandbox was told is not passed on.
func TestHostPortVariables(t *testing.T) {
	inherited := []string{"CLAUDE_CODE_HOST_HTTP_PROXY_PORT=1", "CLAUDE_CODE_HOST_SOCKS_PROXY_PORT=2"}
	named := func(c *config.Config) string {
		var got []string
		for _, kv := range environment(inherited, c, "", "") {
			if rest, ok := strings.CutPrefix(kv, "CLAUDE_CODE_HOST_"); ok {
				got = append(got, rest)
			}
		}
		return strings.Join(got, " ")
	}
	if got := named(&config.Config{}); got != "" {
		t.Errorf("without settings: %s", got)
	}
	got := named(&config.Config{Network: config.Network{HTTPProxyPort: 8888, SOCKSProxyPort: 9999}})
	if got != "HTTP_PROXY_PORT=8888 SOCKS_PROXY_PORT=9999" {
		t.Errorf("with proxies: %s", got)
	}
}

// cli 48
func TestSafeDirectories(t *testing.T) {
	run := func(inherited string, dirs ...string) string {
		base := []string{}
		if inherited != "" {
			base = append(base, "GIT_CONFIG_COUNT="+inherited, "GIT_CONFIG_KEY_0=a", "GIT_CONFIG_VALUE_0=b")
		}
		var got []string
		for _, kv := range environment(base, &config.Config{Git: &config.GitOptions{SafeDirectories: dirs}}, "", "") {
			if strings.HasPrefix(kv, "GIT_CONFIG_") {
				got = append(got, strings.TrimPrefix(kv, "GIT_CONFIG_"))
			}
		}
		slices.Sort(got)
		return strings.Join(got, " ")
	}
	nine := []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"}
	for name, c := range map[string]struct{ got, want string }{
		"two":       {run("", "/a/", "/b", "/a"), "COUNT=4 KEY_0=safe.directory KEY_1=safe.directory KEY_2=safe.directory KEY_3=safe.directory VALUE_0=/a VALUE_1=/a/* VALUE_2=/b VALUE_3=/b/*"},
		"inherited": {run("1", "/a"), "COUNT=3 KEY_0=a KEY_1=safe.directory KEY_2=safe.directory VALUE_0=b VALUE_1=/a VALUE_2=/a/*"},
		"none":      {run("0", "/a"), "COUNT=0 KEY_0=a VALUE_0=b"},
		"nine":      {run("", nine...), "COUNT=1 KEY_0=safe.directory VALUE_0=*"},
		"root":      {run("", "/", ""), "COUNT=2 KEY_0=safe.directory KEY_1=safe.directory VALUE_0=/ VALUE_1=/*"},
		"backslash": {run("", `C:\x\`), "COUNT=2 KEY_0=safe.directory KEY_1=safe.directory VALUE_0=C:/x VALUE_1=C:/x/*"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s\nwant %s", name, c.got, c.want)
		}
	}
}
