package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// outcome is how far the relaying of a response went.
type outcome uint8

const (
	nothing  outcome = iota // the client got nothing: there was no usable response
	whole                   // all of it, and the connection can be used again
	last                    // all or part of it, and the connection has to end
	switched                // it was a tunnel, which has ended
)

// relayResponse passes interim responses and the final one to the client.
func (x *exchange) relayResponse() outcome {
	for {
		h, err := readHead(x.r)
		code := 0
		if err == nil {
			code = statusCode(h)
		}
		switch {
		case code == 0, code == 407 && x.absolute: // the client has no part in that
			x.s.o.Logger.Debug("no usable response", "target", x.target.String(), "error", err)
			if x.absolute {
				x.failure = x.hopFailed("requesting "+x.target.String(), noResponse(h, err))
			}
			return nothing
		case code == 101:
			return x.switchProtocols(h)
		case code >= 200:
			return x.relayFinal(h, code)
		case x.request.start[2] == "HTTP/1.0": // knows no interim responses
		case writeHead(x.c.writer(), statusLine(h), x.s.responseFields(h)) != nil, x.c.writer().Flush() != nil:
			return last
		case code == 100:
			x.permitted = true
		}
	}
}

// responseFields are those fields of a response that the command may see.
func (s *Session) responseFields(h *head) []field {
	fields := h.endToEnd()
	if len(s.stripped) == 0 {
		return fields
	}
	return slices.DeleteFunc(fields, func(f field) bool { return s.stripped[foldName(f.name)] })
}

// noResponse says what an upstream proxy did instead of answering.
func noResponse(h *head, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("it answered %q", strings.Join(h.start[:], " "))
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

func statusLine(h *head) string {
	return strings.TrimRight("HTTP/1.1 "+h.start[1]+" "+h.start[2], " ")
}

// switchProtocols turns the exchange into a tunnel if the client asked for it
// and has sent its whole request.
func (x *exchange) switchProtocols(h *head) outcome {
	wanted := h.values("Upgrade")
	if !x.upgrades() || len(wanted) != 1 || !x.wholeRequestSent() {
		return nothing
	}
	fields := append(x.s.responseFields(h), field{"Connection", "Upgrade"}, field{"Upgrade", wanted[0]})
	if writeHead(x.c.writer(), statusLine(h), fields) != nil || x.c.writer().Flush() != nil {
		return last
	}
	ahead, _ := x.r.Peek(x.r.Buffered())
	ahead = slices.Clone(ahead)
	early := x.c.takeBuffered()
	x.c.dropBuffers()
	x.dropBuffers()
	sent, received := x.s.relay(x.c.conn, x.up.Conn, early, ahead)
	x.up.sent.Add(sent)
	x.up.received.Add(received - int64(len(ahead))) // those were counted when they were read
	return switched
}

// wholeRequestSent ends the watch over the client and reports whether its
// request went to the server completely. A server may answer as soon as it has
// the last byte, which is before this side has noted that it is sent, so the
// note is waited for.
func (x *exchange) wholeRequestSent() bool {
	limit := time.NewTimer(x.s.waits.linger)
	defer limit.Stop()
	select {
	case <-x.sent:
	case <-limit.C:
	}
	return x.unwatch() && x.body.done
}

// relayFinal passes the final response on with framing that the client knows.
func (x *exchange) relayFinal(h *head, code int) outcome {
	f, err := h.framing()
	if err != nil {
		return nothing
	}
	sent := x.begun()
	fields := x.s.responseFields(h)
	bodiless := x.request.start[0] == "HEAD" || code == 204 || code == 304
	// A client that still waits for permission to send its body may send it or not.
	keep := keeps(x.request) && (sent || x.permitted || len(x.request.values("Expect")) == 0)
	chunk := false
	switch {
	case code == 204:
	case f.sized:
		fields = append(fields, field{"Content-Length", strconv.FormatInt(f.length, 10)})
	case bodiless:
	case x.request.start[2] == "HTTP/1.0":
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
	if writeHead(x.c.writer(), statusLine(h), fields) != nil || x.c.writer().Flush() != nil {
		return last
	}
	if !bodiless {
		// A body that is cut short stays so: the client must see that it is incomplete.
		if read, write := x.s.copyBody(x.c.writer(), newBody(x.r, f, true), chunk); read != nil || write != nil {
			return last
		}
	}
	if keep {
		return whole
	}
	return last
}
