package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// Reply codes of RFC 1928 section 6.
const (
	socksSucceeded        = 0x00
	socksRuleset          = 0x02
	socksNetUnreachable   = 0x03
	socksHostUnreachable  = 0x04
	socksRefused          = 0x05
	socksBadCommand       = 0x07
	socksBadAddressType   = 0x08
	socksNoMethod         = 0xff
	socksNegotiationLimit = 10 * time.Second
)

// serveSOCKS serves one SOCKS5 connection. The listener belongs to one sandbox,
// so the method without authentication is the right one.
func (c *client) serveSOCKS() {
	c.deadline(socksNegotiationLimit)
	if !c.socksGreeting() {
		return
	}
	host, port, reply := c.socksRequest()
	if reply != socksSucceeded {
		if reply != socksNoMethod {
			c.socksReply(reply)
			c.linger()
		}
		return
	}
	c.deadline(0)
	ctx, stop := c.watch()
	t, no := c.s.decide(ctx, host, port, c.who)
	var upstream net.Conn
	var err error
	if no == nil {
		upstream, err = c.s.dial(ctx, t, c.who)
	}
	early, present := stop()
	if upstream != nil {
		defer c.s.release(upstream)
	}
	if !present {
		return
	}
	if no != nil || err != nil {
		c.socksReply(socksFailure(no, err))
		c.linger()
		return
	}
	if c.socksReply(socksSucceeded) {
		relay(c.conn, upstream, early)
	}
}

func socksFailure(no *refusal, err error) byte {
	switch {
	case no != nil, errors.As(err, &no):
		return socksRuleset
	case isRefused(err):
		return socksRefused
	case isUnreachable(err):
		return socksNetUnreachable
	}
	return socksHostUnreachable
}

// socksGreeting negotiates the method. A client that offers a user name only
// gets to use it: the listener is private, so every name is right.
func (c *client) socksGreeting() bool {
	var head [2]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil || head[1] == 0 {
		return false
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c.r, methods); err != nil {
		return false
	}
	var open, named bool
	for _, m := range methods {
		open = open || m == 0x00
		named = named || m == 0x02
	}
	switch {
	case open:
		return c.write(0x05, 0x00)
	case named:
		return c.write(0x05, 0x02) && c.socksUserName()
	}
	c.write(0x05, socksNoMethod)
	return false
}

// socksUserName reads the sub-negotiation of RFC 1929 and accepts it.
func (c *client) socksUserName() bool {
	version, err := c.r.ReadByte()
	if err != nil || version != 0x01 {
		return false
	}
	for range 2 {
		n, err := c.r.ReadByte()
		if err != nil {
			return false
		}
		if _, err := io.CopyN(io.Discard, c.r, int64(n)); err != nil {
			return false
		}
	}
	return c.write(0x01, 0x00)
}

// socksRequest reads the request. The reply is socksSucceeded for a CONNECT
// and socksNoMethod for a connection that ended.
func (c *client) socksRequest() (host string, port int, reply byte) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil || head[0] != 0x05 {
		return "", 0, socksNoMethod
	}
	if head[1] != 0x01 {
		return "", 0, socksBadCommand
	}
	size := 0
	switch head[3] {
	case 0x01:
		size = 4
	case 0x04:
		size = 16
	case 0x03:
		n, err := c.r.ReadByte()
		if err != nil {
			return "", 0, socksNoMethod
		}
		size = int(n)
	default:
		return "", 0, socksBadAddressType
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(c.r, rest); err != nil {
		return "", 0, socksNoMethod
	}
	host = string(rest[:size])
	if head[3] != 0x03 {
		a, _ := netip.AddrFromSlice(rest[:size])
		host = a.String()
	}
	return host, int(binary.BigEndian.Uint16(rest[size:])), socksSucceeded
}

func (c *client) socksReply(code byte) bool {
	return c.write(0x05, code, 0x00, 0x01, 0, 0, 0, 0, 0, 0)
}

func (c *client) write(b ...byte) bool {
	_, err := c.conn.Write(b)
	return err == nil
}
