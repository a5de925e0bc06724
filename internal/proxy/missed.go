package proxy

import (
	"fmt"
	"net/netip"

	"github.com/srt-sandbox/srt/internal/policy"
)

// Closed says why programs that know no proxy reach nothing but ports of this
// machine's loopback, whatever the lists allow.
type Closed struct {
	Reason string
	Rule   policy.Rule
	// Unfiltered says that the lists have nothing to do with it: other proxies decide.
	Unfiltered bool
}

// closedHere is for a sandbox that was made without the means to serve them.
var closedHere = Closed{
	Reason: "programs without proxy support have no network here",
	Rule:   policy.Rule{Setting: "linux.backend", Cure: "let the program use the proxy variables, or use the native backend"},
}

// Missed reports a connection that leads nowhere, with what would change that. Such
// an address is reported once.
func (d *Direct) Missed(to netip.AddrPort, datagrams bool) {
	q := wish{protocol: protocolDirect, host: to.Addr().Unmap().String(), port: int(to.Port()), who: d.who}
	if name, ok := d.names.of(to.Addr().Unmap()); ok {
		q.host = name
	}
	key := fmt.Sprint(q.host, " ", q.port, " ", datagrams)
	if !d.missed.first(key) {
		return
	}
	if datagrams {
		d.s.o.Logger.Debug("datagrams go nowhere: what leaves the sandbox is TCP", "host", q.host, "port", q.port)
		return
	}
	no := refusal{kind: byLists, host: q.host}
	no.reason, no.rule = d.whyMissed(q, to.Addr().Unmap().IsLoopback())
	d.s.newAttempt(q, policy.HostDecision{Host: q.host}).failed(d.s.refuse(q, no))
}

// whyMissed says what keeps a program from a destination, and what would lead there.
func (d *Direct) whyMissed(q wish, local bool) (reason string, rule policy.Rule) {
	closed := closedHere
	if d.Closed != nil {
		closed = *d.Closed
	}
	decision := d.s.consult(q)
	switch _, _, denied := d.s.hosts.Load().Denied(q.host, q.port); {
	case !local && (closed.Unfiltered || decision.Verdict != policy.Deny):
		return closed.Reason, closed.Rule
	case !local, denied:
		return decision.Reason, decision.Rule
	case decision.Verdict == policy.Allow:
		reason = "the entry is for programs that use the proxy variables"
	default:
		reason = policy.ReasonNotAllowed
	}
	return reason, policy.Rule{Setting: "network.allowHostPorts", Cure: fmt.Sprintf("add %d to network.allowHostPorts", q.port)}
}
