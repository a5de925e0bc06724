package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

// network.allowHostPorts opens ports of this machine's loopback and nothing else;
// deniedDomains wins, whatever name of this machine it has.
func TestHostPorts(t *testing.T) {
	ports := func(n *config.Network) { n.AllowHostPorts = []int{5432, 6379, 5432} }
	h := hosts(t, []string{"127.0.0.1:8080"}, []string{"localhost:6379", "no.localhost"}, ports)
	strict := hosts(t, nil, nil, func(n *config.Network) { ports(n); n.StrictAllowlist = true })
	for _, c := range []struct {
		host    string
		port    int
		verdict Verdict
		rule    string
	}{
		{"localhost", 5432, Allow, `network.allowHostPorts[0] "5432"`}, {"127.0.0.1", 5432, Allow, `network.allowHostPorts[0] "5432"`},
		{"127.1", 5432, Allow, `network.allowHostPorts[0] "5432"`}, {"[::1]", 5432, Allow, `network.allowHostPorts[0] "5432"`},
		{"::ffff:127.0.0.1", 5432, Allow, `network.allowHostPorts[0] "5432"`},
		{"db.localhost", 5432, Allow, `network.allowHostPorts[0] "5432"`}, {"no.localhost", 5432, Deny, `network.deniedDomains[1] "no.localhost"`},
		{"localhost", 6379, Deny, `network.deniedDomains[0] "localhost:6379"`}, {"127.0.0.1", 6379, Deny, `network.deniedDomains[0] "localhost:6379"`},
		{"::1", 6379, Deny, `network.deniedDomains[0] "localhost:6379"`},
		{"127.0.0.1", 5433, Ask, "network.allowedDomains"}, {"127.0.0.2", 5432, Ask, "network.allowedDomains"}, {"0.0.0.0", 5432, Ask, "network.allowedDomains"},
		{"db.example", 5432, Ask, "network.allowedDomains"}, {"10.0.0.1", 5432, Ask, "network.allowedDomains"}, {"localhost.example", 5432, Ask, "network.allowedDomains"},
		{"127.0.0.1", 8080, Allow, `network.allowedDomains[0] "127.0.0.1:8080"`},
	} {
		d := h.Decide(c.host, c.port, nil)
		if d.Verdict != c.verdict || d.Rule.String() != c.rule {
			t.Errorf("%s:%d: %v by %s", c.host, c.port, d.Verdict, d.Rule)
		}
		if c.verdict == Allow && c.port == 5432 {
			if d := strict.Decide(c.host, c.port, &hostname.Set{}); d.Verdict != Allow {
				t.Errorf("strict: %s:%d: %+v", c.host, c.port, d)
			}
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
		if d := h.Decide(host, 5433, nil); d.Rule.Cure != "add 5433 to network.allowHostPorts" {
			t.Errorf("%s: the cure is %q", host, d.Rule.Cure)
		}
	}
	if got, want := h.LoopbackPorts(nil), []int{5432, 6379, 8080}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	var none *Hosts
	if none.LoopbackPorts(nil) != nil {
		t.Error("ports without lists")
	}
}

// A name of this machine exists for name lookups; that of another does not.
func TestHostPortNames(t *testing.T) {
	h := hosts(t, nil, nil, func(n *config.Network) { n.AllowHostPorts = []int{5432} })
	for name, want := range map[string]Verdict{"localhost": Allow, "db.localhost": Allow, "db.example": Ask, "127.0.0.1": Ask} {
		if d := h.DecideName(name, nil); d.Verdict != want {
			t.Errorf("%s: %+v", name, d)
		}
	}
	denied := hosts(t, nil, []string{"127.0.0.1"}, func(n *config.Network) { n.AllowHostPorts = []int{5432} })
	if d := denied.DecideName("localhost", nil); d.Verdict == Allow {
		t.Errorf("%+v", d)
	}
}

// An allowed name may lead to an open port of the loopback, as to a listed address.
func TestHostPortAddresses(t *testing.T) {
	h := hosts(t, []string{"db.example"}, []string{"[::1]:6379"}, func(n *config.Network) { n.AllowHostPorts = []int{5432, 6379} })
	for _, c := range []struct {
		addr string
		port int
		want AddressClass
	}{
		{"127.0.0.1", 5432, AddressAllowed}, {"::1", 5432, AddressAllowed}, {"::ffff:127.0.0.1", 5432, AddressAllowed},
		{"127.0.0.2", 5432, AddressLoopback}, {"127.0.0.1", 5433, AddressLoopback}, {"::1", 6379, AddressDenyListed}, {"127.0.0.1", 6379, AddressLoopback},
		{"169.254.169.254", 5432, AddressLinkLocal},
	} {
		if class, _ := h.CheckAddress("db.example", c.port, netip.MustParseAddr(c.addr), nil); class != c.want {
			t.Errorf("%s:%d: %s", c.addr, c.port, strings.TrimSpace(class.String()))
		}
	}
}
