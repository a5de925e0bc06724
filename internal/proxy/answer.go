package proxy

import (
	"strings"
	"time"

	"github.com/srt-sandbox/srt/internal/violation"
)

// answer is a response of the proxy itself.
type answer struct {
	status string // code and phrase
	tag    string // X-Proxy-Error, which tells programs who refused
	body   string
	close  bool // the connection ends with it
	head   bool // answer to HEAD: no body follows
	ask    bool // ask for credentials
}

const (
	tagList    = "blocked-by-allowlist"
	tagRuntime = "blocked-by-sandbox-runtime"

	opaqueReason = "this proxy does not tunnel CONNECTs it cannot inspect"
)

// answer sends a response and, where it is the last one, ends the connection.
func (c *client) answer(a answer) {
	fields := []field{{"Content-Type", "text/plain"}}
	if a.tag != "" {
		fields = append(fields, field{"X-Proxy-Error", a.tag})
	}
	if a.ask {
		fields = append(fields, field{"Proxy-Authenticate", `Basic realm="srt"`})
	}
	fields = append(fields, field{"Content-Length", itoa(len(a.body))})
	if a.close {
		fields = append(fields, field{"Connection", "close"})
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.s.waits.head))
	w := c.writer()
	_ = writeHead(w, "HTTP/1.1 "+a.status, fields)
	if !a.head {
		_, _ = w.WriteString(a.body)
	}
	_ = w.Flush()
	_ = c.conn.SetWriteDeadline(time.Time{})
	if a.close {
		c.linger()
	}
}

// refused is the answer to a destination that the policy does not allow. The
// reason stands in the phrase of a CONNECT, where clients show it, and in the
// body, whose last line says what would allow it.
func refused(r *refusal, connect bool) answer {
	reason := phrase(r.reason)
	a := answer{status: "403 Forbidden", tag: tagRuntime, close: connect}
	cure := ""
	if r.rule.Cure != "" {
		cure = "To allow it: " + phrase(r.rule.Cure) + "\n"
	}
	switch r.kind {
	case byLists:
		a.tag = tagList
		a.body = "Connection blocked by network allowlist\n" + reason + "\n" + cure
	case byAddress:
		a.body = "Connection to " + r.host + " blocked: " + reason + "\n" + cure
	case byOpacity:
		a.body = reason + "\n" + cure
		return a
	case byMismatch:
		a.status, a.body = "421 Misdirected Request", reason+"\n"+cure
		return a
	}
	if connect {
		a.status = "403 " + reason
	}
	return a
}

// phrase makes a text fit for a status line, which holds ASCII only.
func phrase(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, violation.Truncate(violation.Sanitize(s), maxReason))
}
