package proxy

import (
	"strconv"
	"strings"
)

// relayResponse passes interim responses and the final one to the client and
// reports whether the client's connection can take another request.
func (x *exchange) relayResponse() bool {
	for {
		h, err := readHead(x.r)
		code := 0
		if err == nil {
			code = statusCode(h)
		}
		switch {
		case err != nil || code == 0, code == 407 && x.viaProxy == nil && x.absolute:
			x.badGateway()
			return false
		case code == 101:
			return x.switchProtocols(h)
		case code < 200:
			if !x.relayInterim(h) {
				return false
			}
		default:
			return x.relayFinal(h, code)
		}
	}
}

// statusCode checks a status line; 0 is a malformed one.
func statusCode(h *head) int {
	if h.start[0] != "HTTP/1.1" && h.start[0] != "HTTP/1.0" || len(h.start[1]) != 3 {
		return 0
	}
	n, err := strconv.Atoi(h.start[1])
	if err != nil || n < 100 {
		return 0
	}
	return n
}

func (x *exchange) statusLine(h *head) string {
	return strings.TrimRight("HTTP/1.1 "+h.start[1]+" "+h.start[2], " ")
}

// relayInterim passes a 1xx response on; HTTP/1.0 clients know none.
func (x *exchange) relayInterim(h *head) bool {
	if x.request.start[2] == "HTTP/1.0" {
		return true
	}
	return writeHead(x.c.w, x.statusLine(h), h.endToEnd()) == nil && x.c.w.Flush() == nil
}

// switchProtocols turns the exchange into a tunnel if the client asked for it.
func (x *exchange) switchProtocols(h *head) bool {
	if !x.upgrades() || len(h.values("Upgrade")) != 1 {
		x.badGateway()
		return false
	}
	fields := append(h.endToEnd(), field{"Connection", "Upgrade"}, field{"Upgrade", h.values("Upgrade")[0]})
	if writeHead(x.c.w, x.statusLine(h), fields) != nil {
		return false
	}
	if n := x.r.Buffered(); n > 0 {
		ahead, _ := x.r.Peek(n)
		_, _ = x.c.w.Write(ahead)
	}
	if x.c.w.Flush() != nil {
		return false
	}
	early, _ := x.c.r.Peek(x.c.r.Buffered())
	relay(x.c.conn, x.upstream, append([]byte(nil), early...))
	return false
}

// relayFinal passes the final response on with framing that the client knows.
func (x *exchange) relayFinal(h *head, code int) bool {
	f, err := h.framing()
	if err != nil {
		x.badGateway()
		return false
	}
	old := x.request.start[2] == "HTTP/1.0"
	bodiless := x.request.start[0] == "HEAD" || code == 204 || code == 304
	keep := !old && !x.request.mentions("Connection", "close")
	fields := h.endToEnd()
	chunk := false
	switch {
	case f.sized:
		fields = append(fields, field{"Content-Length", strconv.FormatInt(f.length, 10)})
	case bodiless:
	case old:
		keep = false
	default:
		chunk = true
		fields = append(fields, field{"Transfer-Encoding", "chunked"})
	}
	if keep {
		fields = append(fields, field{"Connection", "keep-alive"}, field{"Keep-Alive", "timeout=5"})
	} else {
		fields = append(fields, field{"Connection", "close"})
	}
	if writeHead(x.c.w, x.statusLine(h), fields) != nil || x.c.w.Flush() != nil {
		return false
	}
	if bodiless {
		return keep
	}
	if err := x.relayBody(f, chunk); err != nil {
		return false // cut short: the client must see that it is incomplete
	}
	if !keep {
		x.c.linger()
	}
	return keep
}

func (x *exchange) relayBody(f framing, chunk bool) error {
	switch {
	case f.sized:
		// The writer passes large bodies through without copying them twice.
		if err := copySized(x.c.w, x.r, f.length); err != nil {
			_ = x.c.w.Flush()
			return err
		}
		return x.c.w.Flush()
	case f.chunked && chunk:
		return copyChunked(x.c.w, x.r)
	case f.chunked:
		return copyDecoded(x.c.w, x.r)
	}
	return copyUntilEnd(x.c.w, x.r, chunk)
}
