package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Publish leads from a port of this machine to a server inside a sandbox. Settings
// and command lines write it as [HOST:]PORT[:INSIDE], settings also as a number.
type Publish struct {
	// Host is the address to listen on; empty means 127.0.0.1.
	Host string
	// Port is the port to listen on, 0 for any that is free. Inside is the server's.
	Port, Inside int
}

const maxPort = 65535

// publishPattern is looser than the parser.
const publishPattern = `^(([^:]+|\[[0-9a-fA-F:.]+\]):)?[0-9]+(:[0-9]+)?$`

// ParsePublish reads the text form. Two parts are PORT:INSIDE if the first one is
// a number, otherwise HOST:PORT.
func ParsePublish(text string) (Publish, error) {
	var p Publish
	host, ports, named := cutHost(text)
	port, inside, two := strings.Cut(ports, ":")
	if !two {
		inside = port
	}
	var err1, err2 error
	p.Port, err1 = parsePort(port)
	p.Inside, err2 = parsePort(inside)
	if err1 != nil || err2 != nil {
		return Publish{}, fmt.Errorf("%q is not of the form [HOST:]PORT[:INSIDE], such as 3000, 8080:3000, 127.0.0.1:8080:3000 or [::1]:3000", text)
	}
	if named {
		if p.Host, err1 = listenAddress(host); err1 != nil {
			return Publish{}, err1
		}
	}
	return p, p.Validate()
}

// cutHost splits the host off. No host consists of digits alone.
func cutHost(text string) (host, ports string, named bool) {
	if inner, rest, ok := strings.Cut(text, "]:"); ok && strings.HasPrefix(text, "[") {
		return inner[1:], rest, true
	}
	first, rest, ok := strings.Cut(text, ":")
	if !ok || digits(first) {
		return "", text, false
	}
	return first, rest, true
}

func parsePort(text string) (int, error) {
	if !digits(text) {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// listenAddress is the address that a host on a command line means. Names are
// refused: where srt listens must not depend on a resolver.
func listenAddress(host string) (string, error) {
	if strings.EqualFold(host, "localhost") {
		return "127.0.0.1", nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" {
		return "", fmt.Errorf("the host %q is not an address of this machine such as 127.0.0.1, 0.0.0.0 (all of IPv4) or [::] (all), nor localhost", host)
	}
	return a.Unmap().String(), nil
}

// Validate checks ports made by a program.
func (p Publish) Validate() error {
	switch {
	case p.Port < 0 || p.Port > maxPort || p.Inside < 0 || p.Inside > maxPort:
		return fmt.Errorf("ports must be 1 to %d, the one outside may be 0 for any that is free", maxPort)
	case p.Inside == 0:
		return errors.New("the port inside is missing; write 0:INSIDE for any free port outside")
	case p.Host == "":
		return nil
	}
	_, err := listenAddress(p.Host)
	return err
}

// Address is where to listen, in the form of net.Listen.
func (p Publish) Address() string {
	host, err := listenAddress(p.Host)
	if err != nil {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(p.Port))
}

// String returns the text form, without what it says by default.
func (p Publish) String() string {
	text := strconv.Itoa(p.Port)
	if p.Host != "" {
		text = p.Address()
	}
	if p.Inside != p.Port {
		text += ":" + strconv.Itoa(p.Inside)
	}
	return text
}

// MarshalJSON writes the text form.
func (p Publish) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads either form.
func (p *Publish) UnmarshalJSON(data []byte) error { return readQuantity(data, p) }

func (p *Publish) setNumber(n int64) error {
	if n < 1 || n > maxPort {
		return fmt.Errorf("must be 1 to %d", maxPort)
	}
	*p = Publish{Port: int(n), Inside: int(n)}
	return nil
}

func (p *Publish) setText(text string) (err error) {
	*p, err = ParsePublish(text)
	return err
}
