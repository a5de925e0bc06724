package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Reply codes of RFC 1928 section 6.
const (
	socksSucceeded       = 0x00
	socksRuleset         = 0x02
	socksNetUnreachable  = 0x03
	socksHostUnreachable = 0x04
	socksRefused         = 0x05
	socksBadCommand      = 0x07
	socksBadAddressType  = 0x08
)

// Address types of RFC 1928 section 5.
const (
	socksIPv4 = 0x01
	socksName = 0x03
	socksIPv6 = 0x04
)

// Methods of RFC 1928 section 3.
const (
	methodOpen     = 0x00
	methodPassword = 0x02
	methodNone     = 0xff
)

// errSOCKS is a client that broke the protocol or left in the middle of it.
var errSOCKS = errors.New("malformed SOCKS negotiation")

// socksError is a request that is answered with a code.
type socksError byte

func (e socksError) Error() string { return "unsupported SOCKS request" }

// serveSOCKS serves one SOCKS5 connection.
func (c *client) serveSOCKS() (tunnel func()) {
	c.deadline(c.s.waits.socks)
	method, err := c.socksGreeting()
	if err != nil {
		return nil
	}
	switch {
	case method == methodNone:
		c.write(0x05, methodNone)
		c.linger()
		return nil
	case !c.write(0x05, method):
		return nil
	case method == methodPassword && !c.socksPassword():
		return nil
	case method == methodOpen && c.who.Token != "":
		c.refuseStranger()
		return nil
	}
	host, port, err := c.socksRequest()
	if err != nil {
		c.socksRefuse(err, 0)
		return nil
	}
	c.deadline(0)
	up, early, err := c.reach(c.wish(protocolSOCKS, host, port))
	switch {
	case err == nil:
		return c.tunnel(up, string(socksReply(socksSucceeded)), early)
	case !errors.Is(err, errClientLeft):
		c.socksRefuse(err, port)
	}
	return nil
}

// socksGreeting reads the client's methods and chooses one. On a listener that
// needs no password every one is right, for clients that offer nothing else. On
// one that needs it, a client without a password goes on to be told why it is
// refused.
func (c *client) socksGreeting() (method byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil || head[1] == 0 {
		return 0, errSOCKS
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c.r, methods); err != nil {
		return 0, errSOCKS
	}
	open, password := slices.Contains(methods, methodOpen), slices.Contains(methods, methodPassword)
	switch {
	case c.who.Token != "" && !password:
		return methodOpen, nil
	case open && c.who.Token == "":
		return methodOpen, nil
	case password:
		return methodPassword, nil
	}
	return methodNone, nil
}

// socksPassword reads the sub-negotiation of RFC 1929.
func (c *client) socksPassword() bool {
	version, err := c.r.ReadByte()
	if err != nil || version != 0x01 {
		return false
	}
	user, err := c.socksString()
	if err != nil {
		return false
	}
	password, err := c.socksString()
	if err != nil {
		return false
	}
	if c.who.Token == "" {
		return c.write(0x01, 0x00)
	}
	if !c.isToken(password) || user != userPlain && !strings.HasPrefix(user, userKeyed) {
		c.write(0x01, 0x01)
		c.linger()
		return false
	}
	c.who = c.attribute(user)
	return c.write(0x01, 0x00)
}

// socksString reads a text with its length before it.
func (c *client) socksString() (string, error) {
	n, err := c.r.ReadByte()
	if err != nil {
		return "", errSOCKS
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c.r, text); err != nil {
		return "", errSOCKS
	}
	return string(text), nil
}

// socksRequest reads the destination of a CONNECT; other commands and address
// types are a socksError.
func (c *client) socksRequest() (host string, port int, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil || head[0] != 0x05 {
		return "", 0, errSOCKS
	}
	if head[1] != 0x01 {
		return "", 0, socksError(socksBadCommand)
	}
	switch head[3] {
	case socksIPv4:
		host, err = c.socksAddress(4)
	case socksName:
		host, err = c.socksString()
	case socksIPv6:
		host, err = c.socksAddress(16)
	default:
		return "", 0, socksError(socksBadAddressType)
	}
	var number [2]byte
	if err == nil {
		_, err = io.ReadFull(c.r, number[:])
	}
	if err != nil {
		return "", 0, errSOCKS
	}
	return host, int(binary.BigEndian.Uint16(number[:])), nil
}

func (c *client) socksAddress(size int) (string, error) {
	raw := make([]byte, size)
	if _, err := io.ReadFull(c.r, raw); err != nil {
		return "", errSOCKS
	}
	a, _ := netip.AddrFromSlice(raw)
	return a.String(), nil
}

// socksRefuse answers a request that is not served, where an answer exists. No
// reply code tells a reason, so an SSH client, which shows none of them, reads it
// in its own protocol.
func (c *client) socksRefuse(err error, port int) {
	var no *refusal
	var code socksError
	reply := byte(socksHostUnreachable)
	switch {
	case errors.Is(err, errSOCKS):
		return
	case errors.As(err, &code):
		reply = byte(code)
	case errors.As(err, &no) && port == sshPort:
		c.write(sshRefusal(withCure(no.reason, no.rule))...)
		c.linger()
		return
	case errors.As(err, &no):
		reply = socksRuleset
	case isRefused(err):
		reply = socksRefused
	case isUnreachable(err):
		reply = socksNetUnreachable
	}
	c.write(socksReply(reply)...)
	c.linger()
}

// socksReply is a reply with an empty bound address: which one the proxy uses
// is not the command's business.
func socksReply(code byte) []byte { return []byte{0x05, code, 0x00, 0x01, 0, 0, 0, 0, 0, 0} }

func (c *client) write(b ...byte) bool {
	_, err := c.conn.Write(b)
	return err == nil
}
