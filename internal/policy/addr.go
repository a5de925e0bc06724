package policy

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// AddressClass says why a name must not lead to an address. The order is the
// order in which several are reported, whatever order a resolver answers in, so
// that a recorded line does not change from one lookup to the next.
type AddressClass uint8

// The classes of refused addresses; AddressAllowed is none.
const (
	AddressAllowed AddressClass = iota
	AddressDenyListed
	AddressLoopback
	AddressUnspecified
	AddressLinkLocal
	AddressMulticast
	AddressBroadcast
	AddressMetadata
	AddressSiteLocal
	AddressReserved
	AddressListed
	AddressOwn
	AddressNotLoopback
	AddressInvalid
)

// String is the class as people read it; empty for AddressAllowed.
func (c AddressClass) String() string {
	names := [...]string{
		AddressDenyListed: "a deny-listed address", AddressLoopback: "a loopback address", AddressUnspecified: "an unspecified address",
		AddressLinkLocal: "a link-local address", AddressMulticast: "a multicast address", AddressBroadcast: "the broadcast address",
		AddressMetadata: "a cloud metadata address", AddressSiteLocal: "a site-local address", AddressReserved: "a reserved address",
		AddressListed: "a listed address", AddressOwn: "one of this host's addresses", AddressNotLoopback: "a non-loopback address",
		AddressInvalid: "an unparsable address",
	}
	if int(c) >= len(names) {
		return ""
	}
	return names[c]
}

// DescribeClasses joins classes for a message: each once, in a fixed order,
// without the addresses, which would tell a command about the network.
func DescribeClasses(classes []AddressClass) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(classes)))
	names := make([]string, len(sorted))
	for i, c := range sorted {
		names[i] = c.String()
	}
	return "resolved to " + strings.Join(names, " / ")
}

type classRange struct {
	class  AddressClass
	ranges []netip.Prefix
}

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

// builtInClasses are refused for every name; the first that holds an address is
// its class. Sources: RFC 6890 (special purpose addresses), RFC 3879 (site-local)
// and the documentation of the cloud providers' metadata services.
var builtInClasses = sync.OnceValue(func() []classRange {
	return []classRange{
		{AddressLoopback, prefixes("127.0.0.0/8", "::1/128")},
		{AddressUnspecified, prefixes("0.0.0.0/8", "::/128")},
		{AddressLinkLocal, prefixes("169.254.0.0/16", "fe80::/10")},
		{AddressMulticast, prefixes("224.0.0.0/4", "ff00::/8")},
		{AddressBroadcast, prefixes("255.255.255.255/32")},
		{AddressMetadata, prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128",
			"fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:a9fe:a9fe::1/128", "fd00:100::100:200/128")},
		{AddressSiteLocal, prefixes("fec0::/10")},
		{AddressReserved, prefixes("240.0.0.0/4", "192.0.0.0/24")},
	}
})

// CheckAddress judges one address that a permitted name resolved to: the first
// rule that applies decides. host is the canonical name, own are the addresses
// that this machine's interfaces have now.
func (h *Hosts) CheckAddress(host string, port int, a netip.Addr, own []netip.Addr) (AddressClass, bool) {
	if h == nil || !a.IsValid() {
		return AddressInvalid, true
	}
	a = a.WithZone("").Unmap()
	forms := append([]netip.Addr{a}, carriedIPv4(a)...)
	for _, f := range forms {
		if _, ok := h.deny.Addr(f, port); ok {
			return AddressDenyListed, true
		}
	}
	// An address that carries another must not ride on that one's entry: ::1
	// carries 0.0.0.1.
	if _, ok := h.allow.Addr(a, port); ok {
		return AddressAllowed, false
	}
	if slices.Contains(loopbackAddresses, a.String()) {
		if d, _ := h.loopbackPort(host, port); d.Verdict == Allow {
			return AddressAllowed, false
		}
	}
	if IsLocalhost(host) {
		if a.IsLoopback() {
			return AddressAllowed, false
		}
		return AddressNotLoopback, true
	}
	return h.classify(forms, own)
}

// IsLocalhost reports whether a canonical host is one of the names that mean
// this machine (RFC 6761 section 6.3).
func IsLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (h *Hosts) classify(forms, own []netip.Addr) (AddressClass, bool) {
	for _, c := range builtInClasses() {
		if containsAny(c.ranges, forms) {
			return c.class, true
		}
	}
	if containsAny(h.ranges, forms) {
		return AddressListed, true
	}
	for _, o := range own {
		if slices.Contains(forms, o.WithZone("").Unmap()) {
			return AddressOwn, true
		}
	}
	return AddressAllowed, false
}

func containsAny(ranges []netip.Prefix, addrs []netip.Addr) bool {
	for _, r := range ranges {
		if slices.ContainsFunc(addrs, r.Contains) {
			return true
		}
	}
	return false
}

// carriedIPv4 returns the IPv4 addresses that an IPv6 address stands for in the
// translation and tunnel formats: compatible (RFC 4291), translated (RFC 2765),
// NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380) and ISATAP (RFC 5214).
// Local NAT64 prefixes are not among them: only their operator knows where in
// an address the IPv4 one stands.
func carriedIPv4(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	starts := func(prefix ...byte) bool { return slices.Equal(b[:len(prefix)], prefix) }
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case starts(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), starts(0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0), starts(0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0):
		return []netip.Addr{last}
	case starts(0x20, 0x02):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case starts(0x20, 0x01, 0, 0):
		// The server's address, and the client's with all bits flipped.
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{netip.AddrFrom4([4]byte(b[4:8])), client}
	case b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return []netip.Addr{last}
	}
	return nil
}
