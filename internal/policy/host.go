package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

// Verdict is the answer of the host lists.
type Verdict uint8

// The verdicts. Ask means that no list decided and a person may.
const (
	Deny Verdict = iota
	Allow
	Ask
)

// Reasons that are shown to the command's programs and recorded.
const (
	ReasonNoPolicy   = "sandbox policy unavailable"
	ReasonMalformed  = "malformed host"
	ReasonDenied     = "host is on the deny list"
	ReasonNotAllowed = "host is not on the allow list"
)

// Hosts is the part of a policy that decides about connections. It is
// immutable. A nil Hosts denies everything.
type Hosts struct {
	allow, deny *hostname.Set
	reasons     map[string]string
	strict      bool
	ranges      []netip.Prefix
	loopback    map[int]int // ports of network.allowHostPorts, with their places there
	// local are the names and addresses of this machine that the allow list has with
	// a port, by port.
	local map[int][]string
}

// NewHosts builds the host lists of a configuration. The error names the
// setting and the entry that cannot be used.
func NewHosts(cfg *config.Config) (*Hosts, error) {
	n := &cfg.Network
	allow, err := parseAll("network.allowedDomains", n.AllowedDomains, hostname.ParseAllow)
	if err != nil {
		return nil, err
	}
	deny, err := parseAll("network.deniedDomains", n.DeniedDomains, hostname.ParseDeny)
	if err != nil {
		return nil, err
	}
	h := &Hosts{allow: allow, deny: deny, reasons: maps.Clone(n.DeniedDomainReasons), strict: n.StrictAllowlist}
	h.local = localHosts(allow)
	h.loopback = make(map[int]int, len(n.AllowHostPorts))
	for i, port := range n.AllowHostPorts {
		if _, known := h.loopback[port]; !known {
			h.loopback[port] = i
		}
	}
	for i, text := range n.DeniedResolvedAddresses {
		r, err := hostname.ParseRange(text)
		if err != nil {
			return nil, fmt.Errorf("network.deniedResolvedAddresses[%d]: %w", i, err)
		}
		h.ranges = append(h.ranges, r)
	}
	return h, nil
}

func parseAll(setting string, entries []string, parse func(string) (hostname.Pattern, error)) (*hostname.Set, error) {
	ps := make([]hostname.Pattern, 0, len(entries))
	for i, e := range entries {
		p, err := parse(e)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", setting, i, err)
		}
		ps = append(ps, p)
	}
	return hostname.NewSet(ps), nil
}

// HostDecision is the answer for one destination.
type HostDecision struct {
	Verdict Verdict
	// Host is the canonical host; empty when it is malformed.
	Host string
	// Reason says why the destination is not allowed; empty for Allow.
	Reason string
	Rule   Rule
	// AnyLoopback says that the port is allowed on this machine's loopback under
	// whichever address.
	AnyLoopback bool
}

// Decide judges a destination as a client wrote it. perCommand are hosts that
// only this command may reach; nil for none.
func (h *Hosts) Decide(host string, port int, perCommand *hostname.Set) HostDecision {
	if h == nil {
		return HostDecision{Reason: ReasonNoPolicy, Rule: Rule{Setting: "built-in"}}
	}
	canonical, err := hostname.Canonical(host)
	if err != nil {
		return HostDecision{Reason: ReasonMalformed, Rule: Rule{Setting: "built-in"}}
	}
	if reason, rule, denied := h.Denied(canonical, port); denied {
		return HostDecision{Host: canonical, Reason: reason, Rule: rule}
	}
	if i, ok := h.allow.Match(canonical, port); ok {
		return HostDecision{Verdict: Allow, Host: canonical, Rule: listRule("network.allowedDomains", i, h.allow)}
	}
	if isLoopback(canonical) {
		if d, listed := h.loopbackPort(canonical, port); listed {
			return d
		}
	}
	d := HostDecision{Host: canonical, Reason: ReasonNotAllowed}
	d.Rule = Rule{Setting: "network.allowedDomains", Cure: allowCure(canonical, port)}
	i, own := perCommand.Match(canonical, port)
	switch {
	case h.strict && own:
		d.Rule.Cure += ", or unset network.strictAllowlist, which switches the command's own list off"
	case !h.strict:
		if own {
			return HostDecision{Verdict: Allow, Host: canonical, Rule: Rule{Setting: "the command's own list", Entry: perCommand.Pattern(i).String()}}
		}
		d.Verdict = Ask
	}
	return d
}

// allowCure says what would allow a canonical host that no list mentions.
func allowCure(host string, port int) string {
	switch {
	case isLoopback(host) && port > 0:
		return fmt.Sprintf("add %d to network.allowHostPorts", port)
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "use the full name of the host, with its domain, and add that to network.allowedDomains"
	}
	return fmt.Sprintf("add %q to network.allowedDomains", entryFor(host))
}

// isLoopback reports whether a canonical host is what network.allowHostPorts is
// about.
func isLoopback(host string) bool {
	return IsLocalhost(host) || slices.Contains(loopbackAddresses, host)
}

var loopbackAddresses = []string{"127.0.0.1", "::1"}

// loopbackPort decides about a host of this machine by network.allowHostPorts. A
// deny of any of its names counts: they lead to the same servers.
func (h *Hosts) loopbackPort(canonical string, port int) (d HostDecision, listed bool) {
	i, listed := h.loopback[port]
	if !listed {
		return HostDecision{}, false
	}
	for _, name := range append([]string{"localhost"}, loopbackAddresses...) {
		if reason, rule, denied := h.Denied(name, port); denied {
			return HostDecision{Host: canonical, Reason: reason, Rule: rule}, true
		}
	}
	rule := Rule{Setting: "network.allowHostPorts[" + strconv.Itoa(i) + "]", Entry: strconv.Itoa(port)}
	return HostDecision{Verdict: Allow, Host: canonical, Rule: rule, AnyLoopback: true}, true
}

// DecideName judges a host of which the port is not known yet: it is allowed if
// some port of it may be.
func (h *Hosts) DecideName(host string, perCommand *hostname.Set) HostDecision {
	const noPort = 0 // matches entries without a port only
	d := h.Decide(host, noPort, perCommand)
	if d.Verdict == Allow || d.Host == "" {
		return d
	}
	if _, _, denied := h.Denied(d.Host, noPort); denied {
		return d
	}
	if i, ok := h.allow.MatchAnyPort(d.Host); ok {
		return HostDecision{Verdict: Allow, Host: d.Host, Rule: listRule("network.allowedDomains", i, h.allow)}
	}
	if IsLocalhost(d.Host) {
		for port := range h.loopback {
			if d, _ := h.loopbackPort(d.Host, port); d.Verdict == Allow {
				return d
			}
		}
	}
	if i, ok := perCommand.MatchAnyPort(d.Host); ok && !h.strict {
		return HostDecision{Verdict: Allow, Host: d.Host, Rule: Rule{Setting: "the command's own list", Entry: perCommand.Pattern(i).String()}}
	}
	return d
}

// LoopbackPorts returns the ports of this machine's loopback that the allow list,
// or that of a command, names as localhost, as a name below it or as an address, and
// those of network.allowHostPorts.
func (h *Hosts) LoopbackPorts(perCommand *hostname.Set) []int {
	if h == nil {
		return nil
	}
	ports := slices.AppendSeq(slices.Collect(maps.Keys(h.local)), maps.Keys(h.loopback))
	if !h.strict {
		ports = slices.AppendSeq(ports, maps.Keys(localHosts(perCommand)))
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// LocalNames returns the names of this machine that a list may allow on a port: who
// connects to a loopback address may mean any of them, since resolvers answer for
// them all.
func (h *Hosts) LocalNames(port int, perCommand *hostname.Set) []string {
	names := []string{"localhost"}
	if h != nil {
		names = slices.Concat(names, h.local[port], localHosts(perCommand)[port])
	}
	return slices.DeleteFunc(names, func(name string) bool { return !IsLocalhost(name) })
}

// localHosts finds the entries of a list that are this machine and have a port.
func localHosts(list *hostname.Set) map[int][]string {
	found := map[int][]string{}
	for host, port := range list.Exact() {
		if port > 0 && isLoopback(host) {
			found[port] = append(found[port], host)
		}
	}
	return found
}

// Denied looks a canonical host up in the deny list alone, and says which entry
// refuses it and why. What other lists say is not consulted.
func (h *Hosts) Denied(canonical string, port int) (reason string, rule Rule, denied bool) {
	if h == nil {
		return "", Rule{}, false
	}
	i, ok := h.deny.Match(canonical, port)
	if !ok {
		return "", Rule{}, false
	}
	rule = listRule("network.deniedDomains", i, h.deny)
	rule.Cure = fmt.Sprintf("remove %q from network.deniedDomains", rule.Entry)
	if reason = h.reasons[rule.Entry]; reason == "" {
		reason = ReasonDenied
	}
	return reason, rule, true
}

func listRule(list string, i int, entries *hostname.Set) Rule {
	return Rule{Setting: list + "[" + strconv.Itoa(i) + "]", Entry: entries.Pattern(i).String()}
}

// entryFor is the list entry that names a canonical host.
func entryFor(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}
