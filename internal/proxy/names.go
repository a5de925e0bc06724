package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// nameTable gives the names that a command looks up addresses of 198.18.0.0/15,
// which RFC 2544 keeps out of every network, and remembers which is whose.
type nameTable struct {
	mu        sync.Mutex
	addresses map[string]netip.Addr
	owners    map[netip.Addr]string
}

// maxNames bounds what a command can make the filter remember.
const maxNames = 1 << 16

func newNameTable() *nameTable {
	return &nameTable{addresses: map[string]netip.Addr{}, owners: map[netip.Addr]string{}}
}

// address returns the address that stands for a canonical name.
func (n *nameTable) address(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.addresses[name]; ok {
		return a, true
	}
	if len(n.addresses) >= maxNames {
		return netip.Addr{}, false
	}
	const base = 198<<24 | 18<<16
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], uint32(base+1+len(n.addresses)))
	a := netip.AddrFrom4(raw)
	n.addresses[name], n.owners[a] = a, name
	return a, true
}

// of returns the name that an address stands for.
func (n *nameTable) of(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.owners[a]
	return name, ok
}

// told remembers which refused names were recorded: programs ask several times
// for each.
type told struct {
	mu    sync.Mutex
	names map[string]bool
}

const maxTold = 1000

func (t *told) first(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]bool{}
	}
	if t.names[name] || len(t.names) >= maxTold {
		return false
	}
	t.names[name] = true
	return true
}

const (
	maxQuery = 512 // RFC 1035 4.2.1; EDNS queries are shorter, too
	// answerTTL is short: an address stands for a name only in this sandbox.
	answerTTL = 5
)

// ServeNames answers DNS queries on a datagram socket until it is closed. Answers
// leave from the address that was asked: the socket must deliver that with each
// packet (IP_PKTINFO).
func (d *Direct) ServeNames(conn *net.UDPConn) error {
	query, control := make([]byte, maxQuery+1), make([]byte, 128)
	for {
		n, controlLen, _, from, err := conn.ReadMsgUDPAddrPort(query, control)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue
		}
		if reply := d.answerQuery(query[:n]); reply != nil {
			_, _, _ = conn.WriteMsgUDPAddrPort(reply, control[:controlLen], from)
		}
	}
}

// ServeNamesOver answers DNS queries over TCP, see RFC 7766.
func (d *Direct) ServeNamesOver(ln net.Listener) error {
	return d.s.serve(ln, func(_ *service, conn net.Conn) func() {
		for {
			_ = conn.SetDeadline(time.Now().Add(d.s.waits.firstByte))
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return nil
			}
			n := int(binary.BigEndian.Uint16(size[:]))
			if n > maxQuery {
				return nil
			}
			query := make([]byte, n)
			if _, err := io.ReadFull(conn, query); err != nil {
				return nil
			}
			reply := d.answerQuery(query)
			if reply == nil {
				return nil
			}
			if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
				return nil
			}
		}
	})
}

// answerQuery returns nil for what is no query. Nothing that a query holds is
// passed on to anybody. Who asks waits for seconds where no answer comes, so that
// what cannot be read has one, too.
func (d *Direct) answerQuery(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	q, err := p.Question()
	if err != nil || len(query) > maxQuery {
		return formatError(h)
	}
	reply := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	var address netip.Addr
	explanation := ""
	switch {
	case h.OpCode != 0 || q.Class != dnsmessage.ClassINET:
		reply.RCode = dnsmessage.RCodeNotImplemented
	default:
		// Such a name does not exist here. A code that says "refused" would be passed over
		// by musl, which waits for another answer, end a walk through search domains in
		// the middle, and be called a temporary failure, after which programs try again.
		if decision, known := d.lookup(strings.TrimSuffix(q.Name.String(), ".")); !known {
			reply.RCode = dnsmessage.RCodeNameError
			explanation = explain(decision)
		} else if address, known = d.names.address(decision.Host); !known {
			reply.RCode = dnsmessage.RCodeServerFailure
		}
	}
	if !hasOptions(&p) {
		explanation = ""
	}
	return buildReply(reply, q, address, explanation)
}

// lookup decides whether a name exists inside: only what the policy may allow does.
func (d *Direct) lookup(name string) (decision policy.HostDecision, ok bool) {
	decision = d.s.hosts.Load().DecideName(name, d.who.AllowDomains)
	if d.Closed != nil {
		decision.Verdict, decision.Reason, decision.Rule = policy.Deny, d.Closed.Reason, d.Closed.Rule
	}
	a := d.s.newAttempt(wish{protocol: protocolNames, host: name, who: d.who}, decision)
	if decision.Verdict == policy.Allow || decision.Verdict == policy.Ask && d.s.o.Ask != nil {
		if decision.Verdict == policy.Ask {
			a.d.Rule = policy.Rule{Setting: "the connection is asked about"}
		}
		a.report(nil, nil, 0, 0)
		return decision, true
	}
	a.failed(&refusal{kind: byLists, host: decision.Host, reason: decision.Reason, rule: decision.Rule})
	shown := decision.Host
	if shown == "" {
		shown = violation.Truncate(violation.Sanitize(name), 255)
	}
	if !d.isByproduct(decision.Host) && d.told.first(shown) {
		d.s.o.Record(violation.Event{
			Time: time.Now(), Line: "deny dns-lookup " + shown + " (" + decision.Reason + ")", Op: "dns-lookup", Target: shown,
			Rule: decision.Rule.String(), Setting: decision.Rule.Cure, Command: d.who.Command, CommandID: d.who.ID,
		})
	}
	return decision, false
}

// formatError says that a query cannot be read.
func formatError(h dnsmessage.Header) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RCode: dnsmessage.RCodeFormatError}}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// buildReply answers address queries of IPv4 and has nothing of any other kind.
// An explanation goes to clients that know EDNS.
func buildReply(h dnsmessage.Header, q dnsmessage.Question, address netip.Addr, explanation string) []byte {
	b := dnsmessage.NewBuilder(nil, h)
	b.EnableCompression()
	if b.StartQuestions() != nil || b.Question(q) != nil || b.StartAnswers() != nil {
		return nil
	}
	if address.Is4() && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeALL) {
		rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		if b.AResource(rh, dnsmessage.AResource{A: address.As4()}) != nil {
			return nil
		}
	}
	if explanation != "" && !addExplanation(&b, explanation) {
		return nil
	}
	reply, err := b.Finish()
	if err != nil {
		return nil
	}
	return reply
}

// Extended DNS errors, RFC 8914: what tools such as dig show beside the code.
const (
	optionExplanation  = 15
	explanationBlocked = 15
	maxExplanation     = 150
)

// explain says in one line why a name does not exist inside, and what would
// allow it.
func explain(d policy.HostDecision) string {
	return violation.Truncate(phrase(withCure(d.Reason, d.Rule)), maxExplanation)
}

// hasOptions reports whether the query, of which the question was read, ends
// with an OPT record, RFC 6891.
func hasOptions(p *dnsmessage.Parser) bool {
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

func addExplanation(b *dnsmessage.Builder, text string) bool {
	if b.StartAdditionals() != nil {
		return false
	}
	var h dnsmessage.ResourceHeader
	if h.SetEDNS0(maxQuery, dnsmessage.RCodeSuccess, false) != nil {
		return false
	}
	data := append(binary.BigEndian.AppendUint16(nil, explanationBlocked), text...)
	return b.OPTResource(h, dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: optionExplanation, Data: data}}}) == nil
}
