package proxy

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// connect serves one CONNECT request; the connection ends with it.
func (c *client) connect(h *head) {
	host, port, ok := splitAuthority(h.start[1], 0)
	if !ok {
		c.answer(answer{status: "400 Bad Request", close: true})
		return
	}
	ctx, stop := c.watch()
	t, no := c.s.decide(ctx, host, port, c.who)
	var upstream net.Conn
	var err error
	if no == nil {
		upstream, err = c.s.dial(ctx, t, c.who)
	}
	early, present := stop()
	if !present {
		if upstream != nil {
			c.s.release(upstream)
		}
		return
	}
	switch {
	case no != nil:
		c.answer(refused(no, true))
	case errors.As(err, &no):
		c.answer(refused(no, true))
	case err != nil:
		c.s.o.Logger.Debug("connecting", "target", t.String(), "error", err)
		c.answer(answer{status: "502 Bad Gateway", close: true})
	default:
		defer c.s.release(upstream)
		if _, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err == nil {
			relay(c.conn, upstream, early)
		}
	}
}

// splitAuthority reads host:port. Brackets hold IPv6 addresses and nothing
// else. Without a port the default is taken, unless that is 0.
func splitAuthority(s string, defaultPort int) (host string, port int, ok bool) {
	host, digits := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !strings.Contains(s[:end], ":") {
			return "", 0, false
		}
		host, digits = s[1:end], s[end+1:]
		if digits != "" && digits[0] != ':' {
			return "", 0, false
		}
		digits = strings.TrimPrefix(digits, ":")
	} else if before, after, found := strings.Cut(s, ":"); found {
		host, digits = before, after
		if digits == "" {
			return "", 0, false
		}
	}
	if host == "" || strings.ContainsAny(host, "@/?#%\\*") {
		return "", 0, false
	}
	if digits == "" {
		return host, defaultPort, defaultPort != 0
	}
	if strings.Trim(digits, "0123456789") != "" || len(digits) > 9 {
		return "", 0, false
	}
	port, err := strconv.Atoi(digits)
	return host, port, err == nil && port >= 1 && port <= 65535
}

// relay copies both ways until both directions ended. Each direction ends on
// its own: the end of one is passed on, and the other goes on. Copies between
// two TCP connections stay in the kernel, so nothing wraps them.
func relay(client, upstream net.Conn, early []byte) {
	var both sync.WaitGroup
	both.Go(func() {
		var err error
		if len(early) > 0 {
			_, err = upstream.Write(early)
		}
		if err == nil {
			_, err = io.Copy(upstream, client)
		}
		endDirection(client, upstream, err)
	})
	both.Go(func() {
		_, err := io.Copy(client, upstream)
		endDirection(upstream, client, err)
	})
	both.Wait()
}

// drainWait is how long the other direction may go on after one failed: a side
// that stopped reading may have sent an answer before.
const drainWait = 2 * time.Second

func endDirection(from, to net.Conn, err error) {
	closeWrite(to)
	if err != nil {
		soon := time.Now().Add(drainWait)
		_ = from.SetDeadline(soon)
		_ = to.SetDeadline(soon)
	}
}
