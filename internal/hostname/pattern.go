package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Pattern is one entry of a host list. The zero Pattern matches nothing.
type Pattern struct {
	text   string
	kind   kind
	host   string // canonical; for wildcards the part after "*."
	port   int
	addr   netip.Addr
	isAddr bool
}

type kind uint8

const (
	exact kind = iota + 1
	wildcard
	everything
)

// ParseAllow reads an entry of an allow list: a name, "*." and a name of at
// least two labels, localhost, an IPv4 address or an IPv6 address in brackets,
// each with an optional ":port".
func ParseAllow(entry string) (Pattern, error) { return parse(entry, false, true) }

// ParseDeny reads an entry of a deny list, which may also be "*" or "*:port".
func ParseDeny(entry string) (Pattern, error) { return parse(entry, true, true) }

// ParseHostOnly reads an entry of a list without ports. IPv6 addresses may be
// written with or without brackets.
func ParseHostOnly(entry string) (Pattern, error) { return parse(entry, false, false) }

func parse(entry string, deny, ports bool) (Pattern, error) {
	host, port, err := splitPort(entry, ports)
	if err != nil {
		return Pattern{}, fmt.Errorf("invalid host entry %q: %w", entry, err)
	}
	p := Pattern{text: entry, port: port}
	switch {
	case host == "*" && deny:
		p.kind = everything
	case host == "*":
		err = errors.New(`"*" would allow every host; name the hosts`)
	case strings.HasPrefix(host, "*."):
		p.kind = wildcard
		p.host, err = wildcardSuffix(host[2:])
	default:
		p.kind = exact
		err = p.setExact(host)
	}
	if err != nil {
		return Pattern{}, fmt.Errorf("invalid host entry %q: %w", entry, err)
	}
	return p, nil
}

// splitPort separates the port. An entry with more than one colon must be in
// brackets, or part of an address could pass for a port.
func splitPort(entry string, ports bool) (string, int, error) {
	if strings.Contains(entry, "://") {
		return "", 0, errors.New("it is a URL; give only the host and an optional port")
	}
	if strings.Contains(entry, "/") {
		return "", 0, errors.New("a host has no path and no prefix length")
	}
	if strings.HasPrefix(entry, "[") {
		end := strings.IndexByte(entry, ']')
		if end < 0 {
			return "", 0, errors.New("a bracket is not closed")
		}
		if _, err := netip.ParseAddr(entry[1:end]); err != nil || !strings.Contains(entry[1:end], ":") {
			return "", 0, errors.New("only an IPv6 address may be in brackets")
		}
		return withPort(entry[:end+1], entry[end+1:], ports)
	}
	switch strings.Count(entry, ":") {
	case 0:
		return entry, 0, nil
	case 1:
		host, port, _ := strings.Cut(entry, ":")
		return withPort(host, ":"+port, ports)
	}
	if !ports {
		return entry, 0, nil
	}
	return "", 0, errors.New("an IPv6 address must be in brackets")
}

func withPort(host, suffix string, ports bool) (string, int, error) {
	if suffix == "" {
		return host, 0, nil
	}
	if !ports {
		return "", 0, errors.New("no port is allowed here")
	}
	digits, ok := strings.CutPrefix(suffix, ":")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != digits {
		return "", 0, errors.New("the port must be a number from 1 to 65535 without leading zeros")
	}
	return host, n, nil
}

func wildcardSuffix(suffix string) (string, error) {
	host, err := entryName(suffix)
	if err != nil {
		return "", err
	}
	if isAddress(host) {
		return "", errors.New("a wildcard cannot match addresses")
	}
	if !strings.Contains(host, ".") {
		return "", errors.New(`"*." must be followed by at least two labels`)
	}
	return host, nil
}

func (p *Pattern) setExact(host string) error {
	inner := host
	if b, ok := bracketed(host); ok {
		inner = b
	}
	if a, err := netip.ParseAddr(inner); err == nil {
		p.setAddr(a)
		return nil
	}
	// A bare number is a spelling of an address, not a name with one label.
	canonical, err := entryName(host)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddr(canonical); err == nil {
		p.setAddr(a)
		return nil
	}
	if host != "localhost" && !strings.Contains(canonical, ".") {
		return errors.New("a single label names no host on the internet; only localhost is allowed")
	}
	p.host = canonical
	return nil
}

// setAddr keeps the canonical address. A zone says nothing about the
// destination and is dropped.
func (p *Pattern) setAddr(a netip.Addr) {
	p.addr, p.isAddr = a.WithZone("").Unmap(), true
	p.host = p.addr.String()
}

// entryName makes the name in an entry canonical. The rules for entries are
// applied after the conversion to ASCII, which can drop characters and turn
// others into dots.
func entryName(host string) (string, error) {
	if strings.Contains(host, "*") {
		return "", errors.New(`"*." may stand only at the start`)
	}
	ascii, err := toASCII(host)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(ascii, ".") {
		return "", errors.New("it ends in a dot")
	}
	return canonicalName(ascii)
}

// Match reports whether the entry covers a canonical host and a port.
func (p Pattern) Match(host string, port int) bool {
	if p.port != 0 && p.port != port {
		return false
	}
	switch p.kind {
	case exact:
		return p.host == host
	case everything:
		return true
	case wildcard:
		return len(host) > len(p.host)+1 && strings.HasSuffix(host, p.host) && host[len(host)-len(p.host)-1] == '.' && !isAddress(host)
	}
	return false
}

// isAddress tells canonical addresses from canonical names, which have no
// colons and no last label of digits.
func isAddress(host string) bool {
	return strings.Contains(host, ":") || looksNumeric(host[strings.LastIndexByte(host, '.')+1:])
}

// String returns the entry as written.
func (p Pattern) String() string { return p.text }

// Addr returns the address of an entry that is an address.
func (p Pattern) Addr() (netip.Addr, bool) { return p.addr, p.isAddr }

// Port returns the entry's port, 0 for every port.
func (p Pattern) Port() int { return p.port }

// Covers reports whether every host that q matches is matched by p too, ports
// left aside.
func (p Pattern) Covers(q Pattern) bool {
	switch {
	case p.kind == everything:
		return true
	case q.kind == exact:
		p.port = 0
		return p.Match(q.host, 0)
	case q.kind == wildcard && p.kind == wildcard:
		return q.host == p.host || strings.HasSuffix(q.host, "."+p.host)
	}
	return false
}
