// Package hostname gives every spelling of a host one canonical form and
// matches canonical hosts against the entries of host lists. Whoever compares,
// dials or reports a host uses the canonical form, so that no spelling can pass
// one check and mean something else at the next.
package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ErrMalformed is what every refused host wraps.
var ErrMalformed = errors.New("malformed host")

const (
	maxName  = 253 // RFC 1035 section 2.3.4, in text form
	maxLabel = 63
	maxInput = 255
)

// Canonical returns the one spelling of a destination: lower-case names without
// a trailing dot, dotted IPv4 addresses (also for the short, octal and
// hexadecimal forms that resolvers take), IPv6 addresses as in RFC 5952 and
// IPv4-mapped ones as IPv4. Anything else is an error that wraps [ErrMalformed].
func Canonical(host string) (string, error) {
	if host == "" || len(host) > maxInput {
		return "", fmt.Errorf("%w: length %d", ErrMalformed, len(host))
	}
	if inner, ok := bracketed(host); ok {
		host = inner
		if !strings.Contains(host, ":") {
			return "", fmt.Errorf("%w: %q in brackets", ErrMalformed, host)
		}
	}
	if strings.Contains(host, ":") {
		return canonicalIPv6(host)
	}
	return canonicalName(host)
}

func bracketed(host string) (string, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return strings.CutSuffix(inner, "]")
	}
	return "", false
}

// canonicalIPv6 refuses zones: the kernel drops what follows the "%", a suffix
// match would not.
func canonicalIPv6(host string) (string, error) {
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" || !a.Is6() {
		return "", fmt.Errorf("%w: %q", ErrMalformed, host)
	}
	return a.Unmap().String(), nil
}

func canonicalName(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if len(host) > maxName {
		return "", fmt.Errorf("%w: %d characters", ErrMalformed, len(host))
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if !validLabel(l) {
			return "", fmt.Errorf("%w: label %q", ErrMalformed, l)
		}
	}
	if !looksNumeric(labels[len(labels)-1]) {
		return host, nil
	}
	a, ok := parseIPv4Number(labels)
	if !ok {
		return "", fmt.Errorf("%w: %q ends like an address and is none", ErrMalformed, host)
	}
	return a.String(), nil
}

// validLabel allows underscores, which service names use.
func validLabel(l string) bool {
	if l == "" || len(l) > maxLabel {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return !strings.HasPrefix(l, acePrefix) || validALabel(l)
}

// looksNumeric reports whether resolvers would read a name with this last label
// as an IPv4 address.
func looksNumeric(l string) bool {
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}

// parseIPv4Number reads the forms of inet_aton(3): one to four parts, each
// decimal, octal with a leading 0 or hexadecimal with 0x; the last part fills
// the remaining bytes.
func parseIPv4Number(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, p := range parts {
		n, ok := parsePart(p)
		limit := uint64(256)
		if i == len(parts)-1 {
			limit = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= limit {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			value = value<<(8*(5-len(parts))) | n
		} else {
			value = value<<8 | n
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func parsePart(p string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(p, "0x"):
		if p = p[2:]; p == "" {
			return 0, true
		}
		base = 16
	case len(p) > 1 && p[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(p, base, 33)
	return n, err == nil
}
