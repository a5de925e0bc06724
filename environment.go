package srt

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/srt-sandbox/srt/config"
)

// Ports of the proxies on the sandbox's own loopback addresses, the same as
// those of the TypeScript srt.
const (
	httpPort  = 3128
	socksPort = 1080
)

// environment is the command's environment: the caller's, without what the
// settings deny, and with what the sandbox sets. Later values win, so that a
// list of credentials cannot take the proxy away.
func environment(base []string, c *config.Config, tempDir, helper string) []string {
	e := newVariables(base)
	if c.Credentials != nil {
		for _, v := range c.Credentials.EnvVars {
			if v.Mode == "deny" {
				e.unset(v.Name)
			}
		}
	}
	e.set("SANDBOX_RUNTIME", "1")
	e.unset("SRT_ALLOW_NESTED_USERNS")
	if tempDir != "" {
		e.set("TMPDIR", tempDir)
	}
	e.setProxies()
	e.setHostPort("CLAUDE_CODE_HOST_HTTP_PROXY_PORT", c.Network.HTTPProxyPort)
	e.setHostPort("CLAUDE_CODE_HOST_SOCKS_PROXY_PORT", c.Network.SOCKSProxyPort)
	e.setJava(tempDir)
	if helper != "" {
		e.set("GIT_SSH_COMMAND", gitSSHCommand(e.values["GIT_SSH_COMMAND"], helper))
	}
	if c.Git != nil {
		e.setSafeDirectories(c.Git.SafeDirectories)
	}
	return e.list()
}

// variables is an environment that keeps the caller's order.
type variables struct {
	order  []string
	values map[string]string
}

func newVariables(base []string) *variables {
	e := &variables{values: make(map[string]string, len(base)+32)}
	for _, kv := range base {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			e.set(name, value)
		}
	}
	return e
}

func (e *variables) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.order = append(e.order, name)
	}
	e.values[name] = value
}

func (e *variables) unset(name string) {
	if _, ok := e.values[name]; ok {
		delete(e.values, name)
		e.order = slices.DeleteFunc(e.order, func(n string) bool { return n == name })
	}
}

func (e *variables) list() []string {
	all := make([]string, 0, len(e.order))
	for _, name := range e.order {
		all = append(all, name+"="+e.values[name])
	}
	return all
}

// setProxies points every family of tools at the filter. Only loopback is
// excepted: other private addresses have no route from inside and must go
// through the filter like the rest. FTP gets SOCKS, because an HTTP proxy would
// be asked for ftp: URLs; everything that cannot speak SOCKS gets HTTP.
func (e *variables) setProxies() {
	http := fmt.Sprintf("http://localhost:%d", httpPort)
	socks := fmt.Sprintf("socks5h://localhost:%d", socksPort)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy",
		"GRPC_PROXY", "grpc_proxy", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"} {
		e.set(name, http)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		e.set(name, "localhost,127.0.0.1,::1")
	}
	e.set("FTP_PROXY", socks)
	e.set("ftp_proxy", socks)
	e.set("RSYNC_PROXY", fmt.Sprintf("localhost:%d", socksPort))
	e.set("CLOUDSDK_PROXY_TYPE", "http")
	e.set("CLOUDSDK_PROXY_ADDRESS", "localhost")
	e.set("CLOUDSDK_PROXY_PORT", strconv.Itoa(httpPort))
}

// setHostPort names the port of a proxy on this machine. srt's own has none, and
// the one that an outer sandbox had says nothing here.
func (e *variables) setHostPort(name string, port int) {
	e.unset(name)
	if port != 0 {
		e.set(name, strconv.Itoa(port))
	}
}

// setJava tells JVMs about the proxy and the temporary directory in their own
// terms: they read none of the variables above.
func (e *variables) setJava(tempDir string) {
	port := strconv.Itoa(httpPort)
	options := "-Dhttp.proxyHost=localhost -Dhttp.proxyPort=" + port +
		" -Dhttps.proxyHost=localhost -Dhttps.proxyPort=" + port +
		" -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
	if quoted, ok := javaQuote("-Djava.io.tmpdir=" + tempDir); ok && tempDir != "" {
		options += " " + quoted
	}
	if inherited := e.values["JAVA_TOOL_OPTIONS"]; inherited != "" {
		options += " " + inherited
	}
	e.set("JAVA_TOOL_OPTIONS", options)
}

// javaQuote quotes an option for JAVA_TOOL_OPTIONS, which has quotes but no way to
// escape them.
func javaQuote(option string) (string, bool) {
	switch {
	case !strings.ContainsAny(option, " \t\n\r\v\f\"'"):
		return option, true
	case !strings.Contains(option, `"`):
		return `"` + option + `"`, true
	}
	return "'" + option + "'", !strings.Contains(option, "'")
}

// gitSSHCommand makes git reach ssh servers through the proxy. Connection
// sharing is off: its socket would be outside the sandbox. The caller's own options
// of ssh, such as a key, come first, and so win; another program than ssh would not
// know ours.
func gitSSHCommand(inherited, helper string) string {
	command := "ssh"
	if words := strings.Fields(inherited); len(words) > 0 && path.Base(words[0]) == "ssh" && !strings.ContainsAny(inherited, "#\n") {
		command = strings.TrimSpace(inherited)
	}
	proxy := shellQuote(helper) + " " + sshProxyArgument + " %h %p"
	return command + " -o ControlMaster=no -o ControlPath=none -o ProxyCommand=" + shellQuote(proxy)
}

// shellQuote quotes for any POSIX shell, and for csh and fish as far as the
// text has no exclamation mark.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxSafeDirectories bounds how many variables the list may become; beyond it
// git is told to trust every directory, which grants no access.
const maxSafeDirectories = 8

// setSafeDirectories adds safe.directory entries to git's environment
// configuration, see git-config(1) on GIT_CONFIG_COUNT. A count of 0 from the
// caller means that no such configuration is wanted.
func (e *variables) setSafeDirectories(dirs []string) {
	values := safeDirectoryValues(dirs)
	inherited, present := e.values["GIT_CONFIG_COUNT"]
	count, err := strconv.Atoi(inherited)
	if len(values) == 0 || present && (err != nil || count <= 0) {
		return
	}
	for _, v := range values {
		e.set(fmt.Sprintf("GIT_CONFIG_KEY_%d", count), "safe.directory")
		e.set(fmt.Sprintf("GIT_CONFIG_VALUE_%d", count), v)
		count++
	}
	e.set("GIT_CONFIG_COUNT", strconv.Itoa(count))
}

func safeDirectoryValues(dirs []string) []string {
	var clean []string
	for _, d := range dirs {
		d = strings.ReplaceAll(d, `\`, "/")
		if trimmed := strings.TrimRight(d, "/"); trimmed != "" {
			d = trimmed
		} else if d != "" {
			d = "/"
		}
		// An empty value would reset git's list.
		if d != "" && !slices.Contains(clean, d) {
			clean = append(clean, d)
		}
	}
	if len(clean) > maxSafeDirectories {
		return []string{"*"}
	}
	var values []string
	for _, d := range clean {
		values = append(values, d, strings.TrimSuffix(d, "/")+"/*")
	}
	return values
}
