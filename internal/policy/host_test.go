package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
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
	denied, err := hostname.ParseAllow("bad.zone.example")
	if err != nil {
		t.Fatal(err)
	}
	mine := hostname.NewSet([]hostname.Pattern{own, denied}) // network 51: it does not lift a deny
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
	if d := strict.Decide("own.example", 1, mine); d.Verdict != Deny || d.Reason != ReasonNotAllowed { // cli 66, network 51
		t.Errorf("strict: %+v", d)
	}
}

// network 41, 42, 49
func TestDecideHostReasons(t *testing.T) {
	cfg := config.Default()
	cfg.Network.DeniedDomains = []string{"github.com", "constructor.example"}
	cfg.Network.DeniedDomainReasons = map[string]string{"github.com": "use https", "absent.example": "never shown"}
	h, err := NewHosts(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Network.DeniedDomainReasons["constructor.example"] = "changed later"
	for host, want := range map[string]string{
		"GitHub.com.": "use https", "constructor.example": ReasonDenied, "absent.example": ReasonNotAllowed, "[fe80::1%x]": ReasonMalformed,
	} {
		if d := h.Decide(host, 443, nil); d.Reason != want || d.Verdict == Allow {
			t.Errorf("%s: %+v", host, d)
		}
	}
	var none *Hosts
	if d := none.Decide("a.example", 1, nil); d.Verdict != Deny || d.Reason != ReasonNoPolicy {
		t.Errorf("without lists: %+v", d)
	}
	if _, _, denied := none.Denied("a.example", 1); denied {
		t.Error("without lists an entry was found")
	}
}

// Each refusal names the setting that decided and the one that would allow it.
func TestDecideHostRules(t *testing.T) {
	h := hosts(t, []string{"a.example"}, []string{"*:22", "b.example"}, nil)
	for _, c := range []struct {
		host          string
		port          int
		setting, cure string
	}{
		{"a.example", 22, "network.deniedDomains[0]", `remove "*:22" from network.deniedDomains`}, // network 37
		{"B.example.", 443, "network.deniedDomains[1]", `remove "b.example" from network.deniedDomains`},
		{"Off.example.", 443, "network.allowedDomains", `add "off.example" to network.allowedDomains`},
		{"2001:DB8::1", 443, "network.allowedDomains", `add "[2001:db8::1]" to network.allowedDomains`},
		{"a.example", 443, "network.allowedDomains[0]", ""},
		{"a b", 443, "built-in", ""},
	} {
		if d := h.Decide(c.host, c.port, nil); d.Rule.Setting != c.setting || d.Rule.Cure != c.cure {
			t.Errorf("%s:%d: %+v", c.host, c.port, d.Rule)
		}
	}
}

// network 38, 39, 40, 36
func TestDecideHostPatterns(t *testing.T) {
	h := hosts(t, []string{"[2001:DB8:0::1]:8443", "*.3.example", "both.example", "port.example:443", "any.example"}, []string{"both.example"}, nil)
	for _, c := range []struct {
		host string
		port int
		want Verdict
	}{
		{"[2001:db8::1]", 8443, Allow}, {"2001:db8::1", 443, Ask}, {"1.2.3.4", 1, Ask}, {"x.y.3.example", 1, Allow}, {"both.example", 1, Deny},
		{"port.example", 22, Ask}, {"port.example", 443, Allow}, {"any.example", 22, Allow},
	} {
		if d := h.Decide(c.host, c.port, nil); d.Verdict != c.want {
			t.Errorf("%s:%d: %+v", c.host, c.port, d)
		}
	}
	all := hosts(t, []string{"any.example", "127.0.0.1"}, []string{"*"}, nil) // network 37
	for _, host := range []string{"any.example", "127.0.0.1", "::1"} {
		if d := all.Decide(host, 443, nil); d.Verdict != Deny || d.Reason != ReasonDenied {
			t.Errorf("%s: %+v", host, d)
		}
	}
}

func TestNewHostsNamesTheEntry(t *testing.T) {
	for want, change := range map[string]func(*config.Network){ // network 52, 72
		`network.allowedDomains[1]: `:          func(n *config.Network) { n.AllowedDomains = []string{"a.b", "*.com"} },
		`network.deniedDomains[0]: `:           func(n *config.Network) { n.DeniedDomains = []string{"a b"} },
		`network.deniedResolvedAddresses[0]: `: func(n *config.Network) { n.DeniedResolvedAddresses = []string{"bad"} },
	} {
		c := config.Default()
		change(&c.Network)
		if _, err := NewHosts(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// addressCase is one answer of a resolver for an allowed name.
type addressCase struct {
	host, addr string
	port       int
	want       AddressClass
}

func checkAddresses(t *testing.T, h *Hosts, own []netip.Addr, cases []addressCase) {
	t.Helper()
	for _, c := range cases {
		got, denied := h.CheckAddress(c.host, c.port, netip.MustParseAddr(c.addr), own)
		if got != c.want || denied != (c.want != AddressAllowed) {
			t.Errorf("%s -> %s:%d: %q, want %q", c.host, c.addr, c.port, got, c.want)
		}
	}
}

// network 69
func TestAddressClasses(t *testing.T) {
	h := hosts(t, nil, nil, nil)
	for class, addrs := range map[AddressClass][]string{
		AddressLoopback:    {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.9.9.9"},
		AddressUnspecified: {"0.0.0.0", "0.255.1.2", "::"},
		AddressLinkLocal:   {"169.254.0.1", "169.254.169.254", "fe80::1", "fe80::1%en0", "febf::1", "::ffff:169.254.1.1"},
		AddressMulticast:   {"224.0.0.1", "239.255.255.255", "ff02::1"},
		AddressBroadcast:   {"255.255.255.255"},
		AddressMetadata: {"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2:1::1", "fd20:ce::254", "fd00:c1::a9fe:a9fe",
			"fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200"},
		AddressSiteLocal: {"fec0::1", "feff::1"},
		AddressReserved:  {"240.0.0.1", "255.255.255.254", "192.0.0.1", "192.0.0.255"},
		AddressAllowed: {"10.0.0.5", "172.16.0.1", "192.168.1.1", "fd00::1", "100.64.0.1", "1.1.1.1", "192.0.1.0", "223.255.255.255", "126.255.255.255", "128.0.0.1",
			"169.253.0.1", "2606:4700::1", "fd20:ce::255", "fd00:42::43", "fbff::1", "fe7f::1", "fd00:ec3::1"},
	} {
		for _, a := range addrs {
			checkAddresses(t, h, nil, []addressCase{{"n.example", a, 80, class}})
		}
	}
}

// network 62
func TestCarriedAddresses(t *testing.T) {
	h := hosts(t, nil, nil, func(n *config.Network) { n.DeniedResolvedAddresses = []string{"10.0.0.0/8"} })
	for class, addrs := range map[AddressClass][]string{
		AddressLoopback: {"64:ff9b::7f00:1", "2002:7f00:1::1", "::7f00:1", "::ffff:0:7f00:1", "::ffff:127.0.0.1",
			"2001:0:7f00:1::", "2001:0:1:1:0:0:80ff:fffe", // Teredo: the server, the flipped client
			"2001:db8::5efe:7f00:1", "2001:db8::200:5efe:7f00:1", "fd00::100:5efe:127.0.0.1"}, // ISATAP
		AddressLinkLocal: {"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fe80::5efe:808:808"},
		AddressListed:    {"64:ff9b::a09:909", "2002:a00:1::1", "::a00:1", "2001:0:a00:1::f7f7:f7f7"},
		AddressReserved:  {"64:ff9b::f000:1"},
		AddressAllowed:   {"64:ff9b::c000:20a", "2001:db8::7f00:1", "64:ff9b:1::7f00:1", "2003:7f00:1::1", "2001:1:7f00:1::1", "::1:0:7f00:1", "2001:db8::400:5efe:7f00:1"},
	} {
		for _, a := range addrs {
			checkAddresses(t, h, nil, []addressCase{{"n.example", a, 80, class}})
		}
	}
}

func TestAddressRules(t *testing.T) {
	ten := func(n *config.Network) { n.DeniedResolvedAddresses = []string{"10.0.0.0/8", "::ffff:192.0.2.0/120"} }
	own := []netip.Addr{netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("::ffff:203.0.113.6"), netip.MustParseAddr("2001:db8::5%eth0")}
	checkAddresses(t, hosts(t, []string{"10.0.0.9", "127.0.0.1:99"}, nil, ten), own, []addressCase{
		{"n.example", "10.0.0.9", 80, AddressAllowed}, {"n.example", "10.0.0.8", 80, AddressListed}, {"n.example", "64:ff9b::a00:9", 80, AddressListed}, // network 63
		{"n.example", "192.0.2.7", 80, AddressListed}, {"n.example", "::ffff:10.0.0.9", 80, AddressAllowed},
		{"n.example", "127.0.0.1", 99, AddressAllowed}, {"n.example", "127.0.0.1", 80, AddressLoopback}, // network 58
		{"n.example", "203.0.113.5", 80, AddressOwn}, {"n.example", "203.0.113.6", 80, AddressOwn}, {"n.example", "2001:db8::5", 80, AddressOwn}, // network 68
		{"n.example", "64:ff9b::203.0.113.5", 80, AddressOwn},
	})
	checkAddresses(t, hosts(t, nil, nil, nil), nil, []addressCase{{"n.example", "203.0.113.5", 80, AddressAllowed}})
	checkAddresses(t, hosts(t, []string{"0.0.0.1:3000"}, nil, nil), nil, []addressCase{{"n.example", "::1", 3000, AddressLoopback}}) // network 64
	checkAddresses(t, hosts(t, []string{"10.0.0.5"}, []string{"10.0.0.5:22"}, nil), nil, []addressCase{                              // network 65
		{"n.example", "10.0.0.5", 22, AddressDenyListed}, {"n.example", "64:ff9b::a00:5", 22, AddressDenyListed}, {"n.example", "10.0.0.5", 443, AddressAllowed},
	})
	local := hosts(t, []string{"localhost"}, []string{"127.0.0.1:6379"}, nil) // network 66, 67
	checkAddresses(t, local, nil, []addressCase{
		{"localhost", "127.0.0.1", 8080, AddressAllowed}, {"localhost", "::1", 6379, AddressAllowed}, {"localhost", "127.0.0.1", 6379, AddressDenyListed},
		{"localhost", "169.254.169.254", 80, AddressNotLoopback}, {"localhost", "10.0.0.5", 80, AddressNotLoopback},
		{"app.dev.localhost", "127.3.2.1", 80, AddressAllowed}, {"localhost.example.com", "127.0.0.1", 80, AddressLoopback}, {"xlocalhost", "127.0.0.1", 80, AddressLoopback},
	})
	if class, denied := local.CheckAddress("n.example", 1, netip.Addr{}, nil); !denied || class.String() != "an unparsable address" {
		t.Errorf("no address: %q", class)
	}
}

// network 60: the order of the text is fixed.
func TestDescribeClasses(t *testing.T) {
	var all []AddressClass
	for c := AddressInvalid; c > AddressAllowed; c-- {
		all = append(all, c, c)
	}
	want := "resolved to a deny-listed address / a loopback address / an unspecified address / a link-local address / a multicast address / the broadcast address / " +
		"a cloud metadata address / a site-local address / a reserved address / a listed address / one of this host's addresses / a non-loopback address / an unparsable address"
	if got := DescribeClasses(all); got != want {
		t.Errorf("%s", got)
	}
	if AddressAllowed.String() != "" || AddressClass(200).String() != "" {
		t.Error("a class without a name has one")
	}
}

func FuzzCheckAddress(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1}, "n.example")
	f.Add(netip.MustParseAddr("64:ff9b::7f00:1").AsSlice(), "x.localhost")
	h, err := NewHosts(config.Default())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte, host string) {
		a, _ := netip.AddrFromSlice(raw)
		class, denied := h.CheckAddress(host, 443, a, nil)
		if denied != (class != AddressAllowed) || denied && class.String() == "" {
			t.Errorf("%v: %q, %v", a, class, denied)
		}
		// What an IPv4 address is refused for, its mapped spelling is refused for.
		if a.Is4() {
			if mapped, _ := h.CheckAddress(host, 443, netip.AddrFrom16(a.As16()), nil); mapped != class {
				t.Errorf("%v: %q, mapped %q", a, class, mapped)
			}
		}
	})
}

// What a refusal proposes to add is an entry that the settings take and that
// allows the host. A name with one label is none.
func TestProposedEntries(t *testing.T) {
	h := hosts(t, nil, nil, nil)
	for _, host := range []string{"a.example", "_x._y.a.example", "xn--bcher-kva.example", "2001:db8::1", "64:ff9b::1", "1.2.3.4", "0.0.0.0", "127.0.0.2"} {
		d := h.Decide(host, 443, nil)
		entry := strings.TrimSuffix(strings.TrimPrefix(d.Rule.Cure, "add "), " to network.allowedDomains")
		entry, err := strconv.Unquote(entry)
		if err != nil {
			t.Errorf("%s: %s", host, d.Rule.Cure)
			continue
		}
		if again := hosts(t, []string{entry}, nil, nil).Decide(host, 443, nil); again.Verdict != Allow {
			t.Errorf("%s with %s: %+v", host, entry, again)
		}
	}
	for _, host := range []string{"db", "_a"} {
		if d := h.Decide(host, 443, nil); !strings.Contains(d.Rule.Cure, "the full name") {
			t.Errorf("%s: %s", host, d.Rule.Cure)
		}
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

func BenchmarkCheckAddress(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		var allow, deny []string
		for i := range n {
			allow = append(allow, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
			deny = append(deny, fmt.Sprintf("10.2.%d.%d:22", i/250, i%250))
		}
		h := hosts(b, allow, deny, nil)
		a := netip.MustParseAddr("192.0.2.7")
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, denied := h.CheckAddress("n.example", 443, a, nil); denied {
					b.Fatal("denied")
				}
			}
		})
	}
}
