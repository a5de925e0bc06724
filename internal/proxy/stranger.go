package proxy

import (
	"encoding/binary"
	"errors"

	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// strangerReason is for clients, such as BSD's nc, that know no SOCKS password.
const strangerReason = "This proxy requires authentication, and this client did not offer an authentication method, so the connection was refused."

const sshPort = 22

// refuseStranger reads the request of a SOCKS client that cannot authenticate,
// and refuses it. It never causes a dial, a question or a look at any list but
// the deny list, whose text it may be told. A client of an SSH server reads the
// reason in the protocol it expects.
func (c *client) refuseStranger() {
	c.deadline(c.s.waits.stranger)
	host, port, err := c.socksRequest()
	if err != nil {
		var unsupported socksError
		if errors.As(err, &unsupported) {
			c.linger()
		}
		return
	}
	canonical, err := hostname.Canonical(host)
	if err != nil {
		c.write(socksReply(socksRuleset)...)
		c.linger()
		return
	}
	reason := strangerReason
	if text, rule, denied := c.s.hosts.Load().Denied(canonical, port); denied {
		q := wish{protocol: protocolSOCKS, host: host, port: port}
		no := c.s.refuse(q, refusal{kind: byLists, host: canonical, reason: text, rule: rule})
		reason = no.reason
		c.s.newAttempt(q, policy.HostDecision{Host: canonical}).failed(no)
	}
	if port != sshPort {
		c.write(socksReply(socksRuleset)...)
	} else {
		c.write(sshRefusal(reason)...)
	}
	c.linger()
}

// sshRefusal is the answer to a SOCKS client of an SSH server: a tunnel that
// stands, and the words of a server that hangs up at once.
func sshRefusal(reason string) []byte {
	return append(socksReply(socksSucceeded), sshDisconnect(reason)...)
}

// withCure says in one line why a destination is refused and what would allow it.
func withCure(reason string, rule policy.Rule) string {
	if rule.Cure == "" {
		return reason
	}
	return reason + "; to allow it: " + rule.Cure
}

// sshDisconnect is all that an SSH server says which hangs up at once: its
// identification (RFC 4253 section 4.2) and an unencrypted packet (section 6)
// with SSH_MSG_DISCONNECT (section 11.1), whose text OpenSSH prints.
func sshDisconnect(reason string) []byte {
	const (
		msgDisconnect    = 1
		hostNotAllowed   = 1 // SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT
		maxText          = 1000
		block, smallest  = 8, 4
		lengthAndPadding = 5
	)
	text := violation.Truncate(violation.Sanitize(reason), maxText)
	payload := binary.BigEndian.AppendUint32([]byte{msgDisconnect}, hostNotAllowed)
	payload = binary.BigEndian.AppendUint32(payload, uint32(len(text)))
	payload = append(payload, text...)
	payload = binary.BigEndian.AppendUint32(payload, 0) // no language
	padding := block - (lengthAndPadding+len(payload))%block
	if padding < smallest {
		padding += block
	}
	packet := []byte("SSH-2.0-policy_refusal\r\n")
	packet = binary.BigEndian.AppendUint32(packet, uint32(1+len(payload)+padding))
	packet = append(packet, byte(padding))
	packet = append(packet, payload...)
	return append(packet, make([]byte, padding)...)
}
