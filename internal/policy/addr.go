package policy

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// AddressClass says why a name must not lead to an address. The order is the
// order in which several are reported, whatever order a resolver answers in.
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
	AddressReserved
	AddressListed
	AddressOwn
	AddressNotLoopback
	AddressInvalid
)

var classNames = map[AddressClass]string{
	AddressDenyListed: "a deny-listed address", AddressLoopback: "a loopback address", AddressUnspecified: "an unspecified address",
	AddressLinkLocal: "a link-local address", AddressMulticast: "a multicast address", AddressBroadcast: "the broadcast address",
	AddressMetadata: "a cloud metadata address", AddressReserved: "a reserved address", AddressListed: "a listed address",
	AddressOwn: "one of this host's addresses", AddressNotLoopback: "a non-loopback address", AddressInvalid: "an unparsable address",
}

// String is the class as people read it.
func (c AddressClass) String() string { return classNames[c] }

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

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

// builtInClasses are refused for every name, in this order. Sources: RFC 6890
// (special purpose addresses) and the documentation of the cloud providers'
// metadata services.
var builtInClasses = sync.OnceValue(func() []classRange {
	return []classRange{
		{AddressLoopback, prefixes("127.0.0.0/8", "::1/128")},
		{AddressUnspecified, prefixes("0.0.0.0/8", "::/128")},
		{AddressLinkLocal, prefixes("169.254.0.0/16", "fe80::/10", "fec0::/10")},
		{AddressMulticast, prefixes("224.0.0.0/4", "ff00::/8")},
		{AddressBroadcast, prefixes("255.255.255.255/32")},
		{AddressMetadata, prefixes("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128",
			"fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:a9fe:a9fe::1/128", "fd00:100::100:200/128")},
		{AddressReserved, prefixes("240.0.0.0/4", "192.0.0.0/24")},
	}
})

type classRange struct {
	class  AddressClass
	ranges []netip.Prefix
}

// CheckAddress judges one address that a permitted name resolved to. own are
// the addresses of this machine's interfaces.
func (h *Hosts) CheckAddress(host string, port int, a netip.Addr, own []netip.Addr) (AddressClass, bool) {
	if !a.IsValid() {
		return AddressInvalid, true
	}
	a = a.WithZone("").Unmap()
	forms := append([]netip.Addr{a}, carriedIPv4(a)...)
	for _, f := range forms {
		if _, ok := h.deny.Addr(f, port); ok {
			return AddressDenyListed, true
		}
	}
	// An address that a carried form has must not ride on that form's entry.
	if _, ok := h.allow.Addr(a, port); ok {
		return AddressAllowed, false
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		if a.IsLoopback() {
			return AddressAllowed, false
		}
		return AddressNotLoopback, true
	}
	return h.classify(forms, own)
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
	for _, f := range forms {
		if slices.Contains(own, f) {
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
func carriedIPv4(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case in(a, "::/96"), in(a, "::ffff:0:0:0/96"), in(a, "64:ff9b::/96"):
		return []netip.Addr{last}
	case in(a, "2002::/16"):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case in(a, "2001::/32"):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{netip.AddrFrom4([4]byte(b[4:8])), client}
	case (b[8]&^3) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return []netip.Addr{last}
	}
	return nil
}

func in(a netip.Addr, prefix string) bool { return netip.MustParsePrefix(prefix).Contains(a) }
