package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseRange reads an address or an address with a prefix length. A range of
// IPv4-mapped IPv6 addresses is the IPv4 range it stands for. Host bits below
// the prefix are ignored.
func ParseRange(s string) (netip.Prefix, error) {
	text, bits, hasBits := strings.Cut(s, "/")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("invalid address range %q: not an IPv4 or IPv6 address", s)
	}
	a = a.WithZone("")
	n := a.BitLen()
	if hasBits {
		if n, err = prefixLength(bits, a.BitLen()); err != nil {
			return netip.Prefix{}, fmt.Errorf("invalid address range %q: %w", s, err)
		}
	}
	if a.Is4In6() {
		if n < 96 {
			return netip.Prefix{}, fmt.Errorf("invalid address range %q: a range of IPv4-mapped addresses needs a prefix of at least 96", s)
		}
		a, n = a.Unmap(), n-96
	}
	return netip.PrefixFrom(a, n).Masked(), nil
}

func prefixLength(bits string, limit int) (int, error) {
	n, err := strconv.ParseUint(bits, 10, 16)
	if err != nil || len(bits) > 3 || int(n) > limit {
		return 0, errors.New("the prefix length must be a number from 0 to " + strconv.Itoa(limit))
	}
	return int(n), nil
}
