package hostname

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseEntries(t *testing.T) {
	// config 33
	for _, e := range []string{"*", "*.com", "com", "https://a.b", "a.b/c", "a.b:0", "a.b:99999", "a.b:080", "::1", "[::1]:70000", ".a.b", "a.b.", "*.a..b", "*.localhost",
		"a*.b.c", "a.*.c", "a b.com", " a.com", "user@a.com", "[a.b]", "[*]", "LOCALHOST", "intranet", "2001:db8::1:443", "300.1.1.1", "a.b:443.evil", "", "*:443", "[::1]x",
		"[fe80::1%a]b]", "[::1", "a.b/24", "a..b", "a.b ", "xn--a.com", "*.xn--a.com", "*.1.2.3.4", "*.3.4", "*.", "*", ".", ":443", "a.b:", "a.b:+1", "1.2.3.256", "a.08",
		"*.com.\u00ad", "*.com\u3002", "a.b\u3002", "*.\u00ad.com", "*.bücher", "＊.com", "*.＊.com", "a／b.com", "ａ:80:80", "［：：1］", "l\u00adocalhost"} {
		if p, err := ParseAllow(e); err == nil {
			t.Errorf("ParseAllow(%q) = %+v, want an error", e, p)
		}
	}
	// config 34
	for _, e := range []string{"localhost", "localhost:80", "1.2.3.4", "a.b:443", "*.a.b:1", "EXAMPLE.com", "[::1]", "[2001:db8::1]:443", "foo.localhost", "_x.a.b", "bücher.example", "127.1",
		"_x.bücher.example", "r3---a.bücher.example", "☃.net", "a\u3002b", "2130706433", "[::ffff:1.2.3.4]:1"} {
		if _, err := ParseAllow(e); err != nil {
			t.Errorf("ParseAllow(%q): %v", e, err)
		}
	}
	// config 35
	for e, ok := range map[string]bool{"*": true, "*:22": true, "*.com": false, "com": false, "[*]": false} {
		if _, err := ParseDeny(e); (err == nil) != ok {
			t.Errorf("ParseDeny(%q): %v", e, err)
		}
	}
	// config 43
	for e, ok := range map[string]bool{"a.b:443": false, "*.a.b": true, "::1": true, "[::1]": true, "[::1]:1": false, "*": false} {
		if _, err := ParseHostOnly(e); (err == nil) != ok {
			t.Errorf("ParseHostOnly(%q): %v", e, err)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		entry, host string
		port        int
		want        bool
	}{
		{"*.example.com", "example.com", 443, false}, {"*.example.com", "a.b.example.com", 443, true}, {"*.example.com", "xexample.com", 443, false}, // config 36, network 35
		{"example.com:443", "example.com", 80, false}, {"example.com:443", "example.com", 443, true}, // config 37
		{"EXAMPLE.com", "example.COM.", 1, true},                              // config 38
		{"127.0.0.1", "127.1", 1, true}, {"127.0.0.1", "0x7f.0.0.1", 1, true}, // config 40
		{"127.0.0.1", "2130706433", 1, true}, {"127.0.0.1", "[::ffff:127.0.0.1]", 1, true}, // config 40
		{"127.1", "127.0.0.1", 1, true}, {"0x7f.0.0.1", "127.0.0.1", 1, true}, // entries are canonicalised like hosts
		{"*.a.0x1b", "x.a.0x1b", 1, false}, // such a host is malformed
		{"bücher.example", "xn--bcher-kva.example", 1, true}, {"BÜCHER.example:1", "xn--bcher-kva.example", 1, true}, {"BÜCHER.example:1", "xn--bcher-kva.example", 2, false},
		{"faß.de", "xn--fa-hia.de", 1, true}, {"faß.de", "fass.de", 1, false}, {"ｅｘample\u3002com", "example.com", 1, true}, {"*.bücher.example", "a.xn--bcher-kva.example", 1, true},
		{"[::ffff:1.2.3.4]", "1.2.3.4", 1, true}, {"[fe80::1%eth0]", "fe80::1", 1, true}, {"[2001:DB8::1]:443", "2001:db8:0::1", 443, true},
	} {
		p, err := ParseAllow(c.entry)
		if err != nil {
			if c.want {
				t.Errorf("%q: %v", c.entry, err)
			}
			continue
		}
		host, err := Canonical(c.host)
		got := err == nil && p.Match(host, c.port)
		if got != c.want {
			t.Errorf("%q against %q:%d = %v", c.entry, c.host, c.port, got)
		}
	}
}

// config 41: a wildcard never matches an address.
func TestWildcardNeverMatchesAddress(t *testing.T) {
	p := Pattern{kind: wildcard, host: "3.4"}
	if p.Match("1.2.3.4", 1) || NewSet([]Pattern{p}).patterns[0].Match("1.2.3.4", 1) {
		t.Error("an address was matched by its ending")
	}
	if _, ok := NewSet([]Pattern{p}).Match("1.2.3.4", 1); ok {
		t.Error("the index matched an address by its ending")
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"*.github.com", "api.github.com", true}, {"api.github.com", "*.github.com", false}, {"*.github.com", "*.github.com", true}, {"*.github.com", "*.a.github.com", true},
		{"*.a.github.com", "*.github.com", false}, {"*.hub.com", "*.github.com", false}, {"a.b:443", "a.b", true}, {"a.b", "x.a.b", false},
		{"127.1", "127.0.0.1", true}, {"*.bücher.example", "x.xn--bcher-kva.example", true},
	} {
		p, _ := ParseAllow(c.p)
		q, _ := ParseAllow(c.q)
		if got := p.Covers(q); got != c.want {
			t.Errorf("%q covers %q = %v", c.p, c.q, got)
		}
	}
}

func TestSetReportsFirst(t *testing.T) {
	var ps []Pattern
	for _, e := range []string{"x.y:1", "*.b.c", "a.b.c", "*"} {
		p, err := ParseDeny(e)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	s := NewSet(ps)
	for host, want := range map[string]int{"a.b.c": 1, "b.c": 3, "x.y": 3, "1.2.3.4": 3} {
		if i, ok := s.Match(host, 2); !ok || i != want {
			t.Errorf("Match(%q) = %d, %v; want %d", host, i, ok, want)
		}
	}
	if i, ok := s.Match("x.y", 1); !ok || i != 0 {
		t.Errorf("Match(x.y:1) = %d, %v", i, ok)
	}
}

func TestParseRange(t *testing.T) {
	// config 44
	for _, r := range []string{"10.0.0.0/33", "::1/129", "[::1]", "::ffff:10.0.0.0/95", "x", "300.1.1.1", "10.0.0.0/", "10.0.0.0/0008", "1.2.3", "01.2.3.4", ""} {
		if p, err := ParseRange(r); err == nil {
			t.Errorf("ParseRange(%q) = %v", r, p)
		}
	}
	for r, want := range map[string]string{"fc00::/7": "fc00::/7", "::ffff:10.0.0.0/104": "10.0.0.0/8", "10.1.2.3/8": "10.0.0.0/8", "fe80::1%eth0": "fe80::1/128", "1.2.3.4": "1.2.3.4/32"} {
		if p, err := ParseRange(r); err != nil || p != netip.MustParsePrefix(want) {
			t.Errorf("ParseRange(%q) = %v, %v; want %s", r, p, err, want)
		}
	}
}

// The index must answer as looking at one entry after the other does.
func TestSetAgreesWithList(t *testing.T) {
	hosts := rapid.SampledFrom([]string{"a.b", "x.a.b", "y.x.a.b", "b.c", "x.b.c", "1.2.3.4", "::1", "localhost"})
	entry := rapid.Custom(func(t *rapid.T) string {
		e := rapid.SampledFrom([]string{"a.b", "*.a.b", "*.x.a.b", "b.c", "*.b.c", "1.2.3.4", "[::1]", "[::ffff:1.2.3.4]", "localhost", "*"}).Draw(t, "host")
		return e + rapid.SampledFrom([]string{"", ":1", ":2"}).Draw(t, "port")
	})
	rapid.Check(t, func(t *rapid.T) {
		var ps []Pattern
		for _, e := range rapid.SliceOfN(entry, 0, 12).Draw(t, "entries") {
			p, err := ParseDeny(e)
			if err != nil {
				t.Fatal(err)
			}
			ps = append(ps, p)
		}
		host, port := hosts.Draw(t, "host"), rapid.IntRange(1, 3).Draw(t, "port")
		want := slices.IndexFunc(ps, func(p Pattern) bool { return p.Match(host, port) })
		if i, ok := NewSet(ps).Match(host, port); ok != (want >= 0) || ok && i != want {
			t.Errorf("Match(%q, %d) = %d, %v; want %d", host, port, i, ok, want)
		}
	})
}

func TestSetAddr(t *testing.T) {
	var ps []Pattern
	for _, e := range []string{"*", "127.1:2", "127.0.0.1", "[fe80::1]"} {
		p, err := ParseDeny(e)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	s := NewSet(ps)
	for _, c := range []struct {
		addr  string
		port  int
		index int
		found bool
	}{
		{"127.0.0.1", 2, 1, true}, {"::ffff:127.0.0.1", 3, 2, true}, {"fe80::1%eth0", 1, 3, true}, {"127.0.0.2", 2, 0, false},
	} {
		if i, ok := s.Addr(netip.MustParseAddr(c.addr), c.port); ok != c.found || i != c.index {
			t.Errorf("Addr(%s, %d) = %d, %v; want %d, %v", c.addr, c.port, i, ok, c.index, c.found)
		}
	}
	if _, ok := s.Addr(netip.Addr{}, 1); ok {
		t.Error("no address was found in the list")
	}
	var none *Set
	if _, ok := none.Addr(netip.MustParseAddr("127.0.0.1"), 1); ok {
		t.Error("an absent list has an address")
	}
}

// What an entry stands for is canonical, so a canonical host can be matched by
// it, and every entry covers itself.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"a.b:443", "*.a.b", "*", "*:22", "[::1]:1", "127.1", "bücher.example", "*.com.\u00ad", "[fe80::1%a]", "xn--bcher-kva.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		for _, parse := range []func(string) (Pattern, error){ParseAllow, ParseDeny, ParseHostOnly} {
			p, err := parse(entry)
			if err != nil {
				continue
			}
			if p.String() != entry || !p.Covers(p) || p.port < 0 || p.port > 65535 {
				t.Errorf("%q became %+v", entry, p)
			}
			if p.kind == everything {
				continue
			}
			if c, err := Canonical(p.host); err != nil || c != p.host {
				t.Errorf("%q stands for %q, which is not canonical: %q, %v", entry, p.host, c, err)
			}
			if p.kind == wildcard && (!strings.Contains(p.host, ".") || isAddress(p.host)) {
				t.Errorf("the wildcard %q covers everything below %q", entry, p.host)
			}
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::1", "::ffff:10.0.0.0/104", "fe80::1%eth0/64"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseRange(s)
		if err != nil {
			return
		}
		again, err := ParseRange(p.String())
		if err != nil || again != p || p != p.Masked() || p.Addr().Is4In6() {
			t.Errorf("ParseRange(%q) = %v, and that gives %v, %v", s, p, again, err)
		}
	})
}

// The time for a lookup must not depend on the number of entries, also when
// they all name one host.
func BenchmarkSet(b *testing.B) {
	for name, format := range map[string]string{"hosts": "*.host%d.example.com:443", "ports": "*.host7.example.com:%d"} {
		for _, n := range []int{10, 10_000} {
			var ps []Pattern
			for i := range n {
				p, err := ParseAllow(fmt.Sprintf(format, i+1))
				if err != nil {
					b.Fatal(err)
				}
				ps = append(ps, p)
			}
			s := NewSet(ps)
			b.Run(fmt.Sprintf("%s=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, ok := s.Match("a.b.host7.example.com", 8); ok != (name == "ports") {
						b.Fatal("wrong answer")
					}
				}
			})
		}
	}
}
