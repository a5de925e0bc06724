package policy

import (
	"fmt"
	"net/netip"
	"strconv"

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
	ReasonMalformed  = "malformed host"
	ReasonDenied     = "host is on the deny list"
	ReasonNotAllowed = "host is not on the allow list"
)

// Hosts is the part of a policy that decides about connections. It is immutable.
type Hosts struct {
	allow, deny *hostname.Set
	reasons     map[string]string
	strict      bool
	ranges      []netip.Prefix
}

// NewHosts builds the host lists of a configuration.
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
	h := &Hosts{allow: allow, deny: deny, reasons: n.DeniedDomainReasons, strict: n.StrictAllowlist}
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
	Host   string
	Reason string
	Rule   Rule
}

// Decide judges a destination as a client wrote it. perCommand are hosts that
// only this command may reach; nil for none.
func (h *Hosts) Decide(host string, port int, perCommand *hostname.Set) HostDecision {
	canonical, err := hostname.Canonical(host)
	if err != nil {
		return HostDecision{Reason: ReasonMalformed, Rule: Rule{Setting: "built-in"}}
	}
	d := HostDecision{Host: canonical}
	if i, ok := h.deny.Match(canonical, port); ok {
		entry := h.deny.Pattern(i).String()
		d.Reason = ReasonDenied
		if text := h.reasons[entry]; text != "" {
			d.Reason = text
		}
		d.Rule = Rule{Setting: "network.deniedDomains[" + strconv.Itoa(i) + "]", Entry: entry, Cure: fmt.Sprintf("remove %q from network.deniedDomains", entry)}
		return d
	}
	if i, ok := h.allow.Match(canonical, port); ok {
		d.Verdict = Allow
		d.Rule = Rule{Setting: "network.allowedDomains[" + strconv.Itoa(i) + "]", Entry: h.allow.Pattern(i).String()}
		return d
	}
	d.Reason = ReasonNotAllowed
	d.Rule = Rule{Setting: "network.allowedDomains", Cure: fmt.Sprintf("add %q to network.allowedDomains", entryFor(canonical))}
	if h.strict {
		return d
	}
	if i, ok := perCommand.Match(canonical, port); ok {
		d.Verdict, d.Reason = Allow, ""
		d.Rule = Rule{Setting: "the command's own list", Entry: perCommand.Pattern(i).String()}
		return d
	}
	d.Verdict = Ask
	return d
}

// entryFor is the list entry that names a canonical host.
func entryFor(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}
