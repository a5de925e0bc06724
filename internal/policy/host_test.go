package policy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

func hosts(t testing.TB, allow, deny []string, change func(*config.Network)) *Hosts {
	t.Helper()
	c := config.Default()
	c.Network.AllowedDomains, c.Network.DeniedDomains = allow, deny
	if change != nil {
		change(&c.Network)
	}
	h, err := NewHosts(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestDecideHost(t *testing.T) {
	h := hosts(t, []string{"a.b", "*.zone.example", "port.example:443"}, []string{"a.b:22", "bad.zone.example", "127.1"}, func(n *config.Network) {
		n.DeniedDomainReasons = map[string]string{"a.b:22": "use https"}
	})
	own, err := hostname.ParseAllow("own.example")
	if err != nil {
		t.Fatal(err)
	}
	mine := hostname.NewSet([]hostname.Pattern{own})
	for _, c := range []struct {
		host    string
		port    int
		verdict Verdict
		reason  string
	}{
		{"a.b", 443, Allow, ""}, {"a.b", 22, Deny, "use https"}, // config 67
		{"A.B.", 80, Allow, ""}, {"x.zone.example", 1, Allow, ""}, {"zone.example", 1, Ask, ReasonNotAllowed}, {"BAD.zone.example.", 1, Deny, ReasonDenied},
		{"port.example", 80, Ask, ReasonNotAllowed}, {"port.example", 443, Allow, ""}, {"own.example", 1, Allow, ""},
		{"127.0.0.1", 1, Deny, ReasonDenied}, {"2130706433", 1, Deny, ReasonDenied}, {"evil\x00.a.b", 1, Deny, ReasonMalformed}, {"", 1, Deny, ReasonMalformed}, // config 39, 40
	} {
		d := h.Decide(c.host, c.port, mine)
		if d.Verdict != c.verdict || d.Reason != c.reason {
			t.Errorf("%q:%d: %+v", c.host, c.port, d)
		}
		if d.Verdict == Deny && d.Rule.Setting == "" {
			t.Errorf("%q: no rule is named", c.host)
		}
	}
	strict := hosts(t, nil, nil, func(n *config.Network) { n.StrictAllowlist = true })
	if d := strict.Decide("own.example", 1, mine); d.Verdict != Deny || d.Reason != ReasonNotAllowed { // cli 66
		t.Errorf("strict: %+v", d)
	}
}

func TestCheckAddress(t *testing.T) {
	h := hosts(t, []string{"name.example", "10.1.2.3", "127.0.0.1:99"}, []string{"192.0.2.7"}, func(n *config.Network) {
		n.DeniedResolvedAddresses = []string{"10.0.0.0/8"}
	})
	own := []netip.Addr{netip.MustParseAddr("203.0.113.5")}
	for _, c := range []struct {
		host, addr string
		port       int
		want       AddressClass
	}{
		{"n.e", "198.51.100.1", 80, AddressAllowed}, {"n.e", "192.168.1.1", 80, AddressAllowed}, {"n.e", "2606:4700::1", 80, AddressAllowed},
		{"n.e", "127.0.0.1", 80, AddressLoopback}, {"n.e", "127.0.0.1", 99, AddressAllowed}, {"n.e", "::1", 80, AddressLoopback}, {"n.e", "::ffff:127.9.9.9", 80, AddressLoopback},
		{"n.e", "0.1.2.3", 80, AddressUnspecified}, {"n.e", "::", 80, AddressUnspecified}, {"n.e", "169.254.1.1", 80, AddressLinkLocal}, {"n.e", "fe80::1", 80, AddressLinkLocal}, {"n.e", "fec0::1", 80, AddressLinkLocal},
		{"n.e", "224.0.0.1", 80, AddressMulticast}, {"n.e", "ff02::1", 80, AddressMulticast}, {"n.e", "255.255.255.255", 80, AddressBroadcast},
		{"n.e", "169.254.169.254", 80, AddressLinkLocal}, {"n.e", "100.100.100.200", 80, AddressMetadata}, {"n.e", "168.63.129.16", 80, AddressMetadata}, {"n.e", "fd00:ec2::254", 80, AddressMetadata}, {"n.e", "192.0.0.192", 80, AddressMetadata},
		{"n.e", "240.0.0.1", 80, AddressReserved}, {"n.e", "192.0.0.9", 80, AddressReserved},
		{"n.e", "10.9.9.9", 80, AddressListed}, {"n.e", "10.1.2.3", 80, AddressAllowed}, {"n.e", "203.0.113.5", 80, AddressOwn}, {"n.e", "192.0.2.7", 80, AddressDenyListed},
		{"n.e", "64:ff9b::7f00:1", 80, AddressLoopback}, {"n.e", "2002:7f00:1::1", 80, AddressLoopback}, {"n.e", "::ffff:0:127.0.0.1", 80, AddressLoopback}, {"n.e", "64:ff9b::a09:909", 80, AddressListed},
		{"n.e", "2001:0:7f00:1::", 80, AddressLoopback}, {"n.e", "2001:db8::5efe:7f00:1", 80, AddressLoopback}, {"n.e", "2001:0:1:1:0:0:80ff:fffe", 80, AddressLoopback},
		{"localhost", "127.0.0.1", 80, AddressAllowed}, {"x.localhost", "::1", 80, AddressAllowed}, {"localhost", "198.51.100.1", 80, AddressNotLoopback},
	} {
		got, denied := h.CheckAddress(c.host, c.port, netip.MustParseAddr(c.addr), own)
		if got != c.want || denied != (c.want != AddressAllowed) {
			t.Errorf("%s -> %s:%d: %q, want %q", c.host, c.addr, c.port, got, c.want)
		}
	}
	if got := DescribeClasses([]AddressClass{AddressOwn, AddressLoopback, AddressOwn}); got != "resolved to a loopback address / one of this host's addresses" {
		t.Errorf("%q", got)
	}
}

func BenchmarkDecideHost(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		var allow, deny []string
		for i := range n {
			allow = append(allow, fmt.Sprintf("*.h%d.example.com", i))
			deny = append(deny, fmt.Sprintf("d%d.example.org:22", i))
		}
		h := hosts(b, allow, deny, nil)
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			for b.Loop() {
				if h.Decide("x.h3.example.com", 443, nil).Verdict != Allow {
					b.Fatal("denied")
				}
			}
		})
	}
}
