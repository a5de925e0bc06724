package proxy

import (
	"os"
	"slices"
	"strings"

	"github.com/srt-sandbox/srt/internal/policy"
)

// isByproduct recognises a canonical name that no program wants to connect to and
// that no setting would help: the name of an address, this machine's own, a service's name in front of a
// host's (RFC 2782) that is allowed, and what the resolver makes of an allowed name
// with the domains that it searches. Its lookup fails like that of any other name
// that is not allowed, and is no news.
func (d *Direct) isByproduct(name string) bool {
	if strings.HasSuffix(name, ".in-addr.arpa") || strings.HasSuffix(name, ".ip6.arpa") {
		return true
	}
	if own, err := os.Hostname(); err == nil && strings.EqualFold(name, own) {
		return true
	}
	host := name
	for strings.HasPrefix(host, "_") {
		_, host, _ = strings.Cut(host, ".")
	}
	if host != name && d.mayConnect(host) {
		return true
	}
	return slices.ContainsFunc(d.s.searchDomains(), func(domain string) bool {
		wanted, searched := strings.CutSuffix(name, "."+domain)
		return searched && d.mayConnect(wanted)
	})
}

func (d *Direct) mayConnect(name string) bool {
	decision := d.s.hosts.Load().DecideName(name, d.who.AllowDomains)
	return decision.Verdict == policy.Allow
}

// resolverConfig is where resolvers find the domains that they search.
const resolverConfig = "/etc/resolv.conf"

// readSearchDomains reads them, see resolv.conf(5): the last line counts.
func readSearchDomains() []string {
	text, err := os.ReadFile(resolverConfig)
	if err != nil {
		return nil
	}
	return parseSearchDomains(string(text))
}

func parseSearchDomains(text string) (domains []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ToLower(line))
		if len(words) > 1 && (words[0] == "search" || words[0] == "domain") {
			domains = words[1:]
		}
	}
	for i := range domains {
		domains[i] = strings.Trim(domains[i], ".")
	}
	return slices.DeleteFunc(domains, func(domain string) bool { return domain == "" })
}
