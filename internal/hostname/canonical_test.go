package hostname

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// Every row of the table of spellings, config 39 and network 5.3.
func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"127.1": "127.0.0.1", "127.0.1": "127.0.0.1", "0177.0.0.1": "127.0.0.1", "0x7f.0.0.1": "127.0.0.1", "0X7F.1": "127.0.0.1",
		"017700000001": "127.0.0.1", "0x7f000001": "127.0.0.1", "2130706433": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "0x7f.0.0.1.": "127.0.0.1",
		"2852039166": "169.254.169.254", "1.2.3": "1.2.0.3", "0": "0.0.0.0", "00": "0.0.0.0", "0x": "0.0.0.0", "4294967295": "255.255.255.255",
		"foo.1a": "foo.1a", "Api.Example.COM.": "api.example.com", "_dmarc.example.com": "_dmarc.example.com", "localhost": "localhost",
		"[::1]": "::1", "0:0:0:0:0:0:0:1": "::1", "::FFFF:1.2.3.4": "1.2.3.4", "::ffff:102:304": "1.2.3.4", "[0:0:0:0:0:ffff:102:304]": "1.2.3.4",
		"::ffff:0:1.2.3.4": "::ffff:0:102:304", "64:ff9b::1.2.3.4": "64:ff9b::102:304", "2001:0DB8::0001": "2001:db8::1",
		"0x7F000001": "127.0.0.1", "127.0x1": "127.0.0.1", "1.0xffffff": "1.255.255.255", "a.b.0xg": "a.b.0xg", "localhost.": "localhost",
		"XN--bcher-kva.example": "xn--bcher-kva.example", "xn--n3h.net": "xn--n3h.net", "r3---sn-x.googlevideo.com": "r3---sn-x.googlevideo.com", "xn-a.b": "xn-a.b",
		strings.Repeat("a", 63) + ".com": strings.Repeat("a", 63) + ".com", strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
	} {
		got, err := Canonical(in)
		if err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "4294967296", "256.1.1.1", "1.2.3.256", "1.2.3.4.5", "08.1.1.1", "1..2", "foo.1", "foo.123", "foo.0x1", "foo.08", "xn--", "xn--a", "xn--a.com", "xn--abc-.com", "a.xn--\u00ad", "a..b", ".", "a.b..", ".a",
		"evil.com\x00.example.com", "a b", "fe80::1%eth0", "::ffff:1.2.3.4%x.allowed.com", "%", "a%2eb", "1.0x1000000", "0x7f.0x.0x.0x.1", "[]", "[[::1]]", "::1.", "::ffff:1.2.3", "a:80", "a\r\nb", "a\tb", "*.a.b", "*", "[fe80::1%25eth0]", "[1.2.3.4]", "[name]", "[::1", "::1]", "a/b", "a@b", "bücher.example",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "ab", strings.Repeat("a", 300),
	} {
		if got, err := Canonical(in); !errors.Is(err, ErrMalformed) {
			t.Errorf("Canonical(%q) = %q, %v; want a malformed host", in, got, err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"a.b", "127.1", "[::1]", "0x7f.1", "a.b.", "xn--bcher-kva.example", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Canonical(s)
		if err != nil {
			return
		}
		again, err := Canonical(c)
		if err != nil || again != c {
			t.Errorf("Canonical(%q) = %q, but Canonical of that is %q, %v", s, c, again, err)
		}
		if _, err := netip.ParseAddr(c); isAddress(c) != (err == nil) {
			t.Errorf("isAddress(%q) = %v", c, isAddress(c))
		}
		if strings.ContainsAny(c, "\x00\r\n %[]/@") {
			t.Errorf("Canonical(%q) = %q", s, c)
		}
	})
}
