package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// exchangeSOCKS asks a SOCKS5 proxy for a tunnel. Nothing is read beyond its
// answer: what follows belongs to the tunnel.
func (l *leg) exchangeSOCKS(t target, user *userinfo) error {
	if err := checkCanonical(t); err != nil {
		return err
	}
	if err := l.socksLogin(user); err != nil {
		return err
	}
	if _, err := l.Write(socksConnectRequest(t)); err != nil {
		return err
	}
	return l.socksAnswer()
}

// socksLogin offers a password only where there is one, and takes no method that
// was not offered.
func (l *leg) socksLogin(user *userinfo) error {
	greeting := []byte{0x05, 1, methodOpen}
	if user != nil {
		greeting = []byte{0x05, 2, methodOpen, methodPassword}
	}
	if _, err := l.Write(greeting); err != nil {
		return err
	}
	var choice [2]byte
	switch _, err := io.ReadFull(l, choice[:]); {
	case err != nil:
		return err
	case choice[0] != 0x05:
		return errors.New("it does not speak SOCKS5")
	case choice[1] == methodOpen:
		return nil
	case choice[1] == methodPassword && user != nil:
		return l.socksSendPassword(user)
	case user == nil:
		return errors.New("it asks for credentials, and its URL has none")
	}
	return errors.New("it takes neither a password nor a client without one")
}

func (l *leg) socksSendPassword(user *userinfo) error {
	b := []byte{0x01, byte(len(user.name))}
	b = append(append(b, user.name...), byte(len(user.password)))
	if _, err := l.Write(append(b, user.password...)); err != nil {
		return err
	}
	var status [2]byte
	if _, err := io.ReadFull(l, status[:]); err != nil {
		return err
	}
	if status != [2]byte{0x01, 0x00} {
		return errors.New("it refused the credentials of its URL")
	}
	return nil
}

// socksConnectRequest gives addresses as such: a proxy may resolve nothing.
func socksConnectRequest(t target) []byte {
	b := []byte{0x05, 0x01, 0x00}
	switch a, err := netip.ParseAddr(t.host); {
	case err != nil:
		b = append(append(b, socksName, byte(len(t.host))), t.host...)
	case a.Is4():
		b = append(append(b, socksIPv4), a.AsSlice()...)
	default:
		b = append(append(b, socksIPv6), a.AsSlice()...)
	}
	return binary.BigEndian.AppendUint16(b, uint16(t.port))
}

// socksAnswer reads the proxy's reply with the address that it used, which
// means nothing here.
func (l *leg) socksAnswer() error {
	var head [4]byte
	if _, err := io.ReadFull(l, head[:]); err != nil {
		return err
	}
	if head[0] != 0x05 {
		return errors.New("it does not speak SOCKS5")
	}
	if head[1] != socksSucceeded {
		return fmt.Errorf("it answered %q", socksMeaning(head[1]))
	}
	size := 0
	switch head[3] {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		var n [1]byte
		if _, err := io.ReadFull(l, n[:]); err != nil {
			return err
		}
		size = int(n[0])
	default:
		return errors.New("its answer is malformed")
	}
	_, err := io.ReadFull(l, make([]byte, size+2))
	return err
}

// socksMeaning is what RFC 1928 section 6 calls a reply code.
func socksMeaning(code byte) string {
	meanings := []string{
		"succeeded", "general SOCKS server failure", "connection not allowed by ruleset", "network unreachable", "host unreachable",
		"connection refused", "TTL expired", "command not supported", "address type not supported",
	}
	if int(code) < len(meanings) {
		return meanings[code]
	}
	return fmt.Sprintf("code %d", code)
}
