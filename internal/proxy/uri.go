package proxy

import (
	"net"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// splitAuthority reads host:port. Brackets hold IPv6 addresses and nothing
// else. Without a port the default is taken, unless that is 0. Whether the host
// is one is judged by the policy.
func splitAuthority(s string, defaultPort int) (host string, port int, ok bool) {
	host, digits, hasPort := s, "", false
	if inner, rest, found := strings.Cut(s, "]"); found || strings.HasPrefix(s, "[") {
		host, ok = strings.CutPrefix(inner, "[")
		if !found || !ok || !strings.Contains(host, ":") {
			return "", 0, false
		}
		if digits, hasPort = strings.CutPrefix(rest, ":"); !hasPort && rest != "" {
			return "", 0, false
		}
	} else {
		host, digits, hasPort = strings.Cut(s, ":")
	}
	switch {
	case host == "" || strings.Contains(host, "["):
		return "", 0, false
	case !hasPort:
		return host, defaultPort, defaultPort != 0
	case digits == "" || len(digits) > 9 || strings.Trim(digits, "0123456789") != "":
		return "", 0, false
	}
	port, err := strconv.Atoi(digits)
	return host, port, err == nil && port >= 1 && port <= 65535
}

// uri is the destination and the path of an absolute-form request target.
type uri struct {
	scheme string
	host   string
	port   int
	// path is what goes to the server, byte for byte.
	path string
}

// parseURI reads an absolute http or https URI. User information and fragment
// are dropped; nothing of the path is normalised. Hosts are plain ASCII names or
// addresses: escapes would have to be read as every later reader reads them.
func parseURI(s string) (uri, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	u := uri{scheme: strings.ToLower(scheme)}
	if !ok || u.defaultPort() == 0 {
		return u, false
	}
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	authority = strings.TrimSuffix(authority, ":")
	u.path, _, _ = strings.Cut(rest[end:], "#")
	if !strings.HasPrefix(u.path, "/") {
		u.path = "/" + u.path
	}
	u.host, u.port, ok = splitAuthority(authority, u.defaultPort())
	return u, ok && !strings.ContainsFunc(u.host, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:", r)
	})
}

// defaultPort is 0 for schemes that are not served.
func (u uri) defaultPort() int {
	switch u.scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// shown is the URI for messages: without user information, and without the
// query, which may hold secrets.
func (u uri) shown() string {
	path := u.path
	if at := strings.IndexByte(path, '?'); at >= 0 {
		path = path[:at] + "?…"
	}
	return u.scheme + "://" + authority(u.host, u.port, u.defaultPort()) + path
}

// authority writes host and port; the scheme's own port is left out.
func authority(host string, port, defaultPort int) string {
	if port != defaultPort {
		return net.JoinHostPort(host, itoa(port))
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
