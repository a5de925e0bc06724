package hostname

import (
	"fmt"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// acePrefix marks a label that stands for an internationalised one (RFC 5890).
const acePrefix = "xn--"

// mapping is how browsers read names (UTS 46, non-transitional, as in the URL
// standard): hyphens may stand anywhere and the set of ASCII characters is left
// to validLabel, which allows the underscores of service names.
func mapping() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckJoiners(true), idna.Transitional(false),
		idna.CheckHyphens(false), idna.StrictDomainName(false))
}

// toASCII converts internationalised labels to A-labels; ASCII names are left alone.
func toASCII(host string) (string, error) {
	ascii := true
	for i := range len(host) {
		ascii = ascii && host[i] < utf8.RuneSelf
	}
	if ascii {
		return host, nil
	}
	converted, err := mapping().ToASCII(host)
	if err != nil {
		return "", fmt.Errorf("it is no internationalised name: %w", err)
	}
	return converted, nil
}

// validALabel reports whether a lower-case label with the prefix encodes a
// label, in the one way that it can be encoded. What resolvers make of others
// is not defined.
func validALabel(l string) bool {
	again, err := mapping().ToASCII(l)
	return err == nil && again == l
}
