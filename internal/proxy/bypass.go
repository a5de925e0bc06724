package proxy

import (
	"net/netip"
	"strings"

	"github.com/srt-sandbox/srt/internal/hostname"
)

// bypassList are the hosts that are reached without the parent proxy, in the
// grammar of NO_PROXY.
type bypassList struct {
	everything bool
	ranges     []netip.Prefix
	domains    map[string]bool // each with everything below it
}

// parseBypass reads entries between commas. What it does not understand matches
// nothing: a mistake must not send everything around the proxy.
func parseBypass(list string) bypassList {
	b := bypassList{domains: map[string]bool{}}
	for e := range strings.SplitSeq(strings.ToLower(list), ",") {
		e = strings.TrimSpace(e)
		switch {
		case e == "*":
			b.everything = true
		case strings.Contains(e, "/"):
			if r, err := hostname.ParseRange(e); err == nil {
				b.ranges = append(b.ranges, r)
			}
		default:
			b.addHost(e)
		}
	}
	return b
}

// addHost reads a host, whose port means nothing.
func (b *bypassList) addHost(e string) {
	host := e
	if inner, rest, ok := strings.Cut(e, "]"); ok {
		host = strings.TrimPrefix(inner, "[")
		if !strings.HasPrefix(inner, "[") || rest != "" && rest[0] != ':' {
			return
		}
	} else if strings.Count(e, ":") == 1 {
		host, _, _ = strings.Cut(e, ":")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.WithZone("").Unmap()
		b.ranges = append(b.ranges, netip.PrefixFrom(a, a.BitLen()))
		return
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		host = rest
	} else {
		host = strings.TrimPrefix(host, ".")
	}
	if host != "" {
		b.domains[host] = true
	}
}

// matches reports whether a canonical host is reached directly. Names are not
// resolved for that.
func (b *bypassList) matches(host string) bool {
	a, err := netip.ParseAddr(host)
	if b.everything || host == "localhost" || err == nil && a.IsLoopback() {
		return true
	}
	if err == nil {
		return containsAddr(b.ranges, a)
	}
	for rest, more := host, true; more; _, rest, more = strings.Cut(rest, ".") {
		if b.domains[rest] {
			return true
		}
	}
	return false
}

func containsAddr(ranges []netip.Prefix, a netip.Addr) bool {
	for _, r := range ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}
