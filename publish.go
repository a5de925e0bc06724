package srt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// Published is a port of this machine that leads to a server of a command.
type Published struct {
	// Publish is what was asked for.
	config.Publish
	// Addr is where this machine listens. Its port is never 0.
	Addr netip.AddrPort
}

// publishing are the listeners of one run.
type publishing struct {
	ports     []Published
	listeners []net.Listener
	serving   sync.WaitGroup
}

// publish listens on this machine for a command that has not started yet.
// Connections wait until it has.
func (s *Sandbox) publish(c *Cmd, cfg *config.Config) (*publishing, error) {
	p := &publishing{}
	err := checkPublish(cfg, c.Publish)
	for i, port := range cfg.Network.PublishPorts {
		if err == nil {
			err = p.listen(port, "network.publishPorts["+strconv.Itoa(i)+"]")
		}
	}
	for _, port := range c.Publish {
		if err == nil {
			err = p.listen(port, "--publish "+port.String())
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *publishing) listen(port config.Publish, source string) error {
	network := "tcp4"
	address := port.Address()
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr().Is6() {
		network = "tcp6"
		if a.Addr().IsUnspecified() {
			network = "tcp" // all addresses, of IPv4 too
		}
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		return listenError(address, source, err)
	}
	p.listeners = append(p.listeners, ln)
	p.ports = append(p.ports, Published{Publish: port, Addr: ln.Addr().(*net.TCPAddr).AddrPort()})
	return nil
}

// listenError names the port, the setting and what can be done.
func listenError(address, source string, err error) error {
	e := &launch.StartError{Stage: "publish", Text: "publishing " + address + " (" + source + "): " + err.Error(), Err: err}
	var number syscall.Errno
	if errors.As(err, &number) {
		e.Text = "publishing " + address + " (" + source + "): " + number.Error()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Cure = "end the program that listens there, or publish another port; 0:INSIDE takes any that is free"
	case errors.Is(err, syscall.EACCES):
		e.Cure = "publish a port of 1024 or more: lower ones need privileges"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Cure = "publish on an address that this machine has"
	}
	return e
}

// inside are the ports of the servers inside.
func (p *publishing) inside() []int {
	var ports []int
	for _, port := range p.ports {
		ports = append(ports, port.Inside)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// serve leads connections to the servers inside, once the command runs.
func (s *Sandbox) servePublished(p *publishing, box launch.Sandbox) {
	for i, ln := range p.listeners {
		dial := func(ctx context.Context) (net.Conn, error) { return box.Dial(ctx, p.ports[i].Inside) }
		p.serving.Go(func() {
			if err := s.filter.ServeInbound(s.ctx, ln, dial); err != nil && !errors.Is(err, net.ErrClosed) {
				s.options.logger.Debug("serving a published port", "error", err)
			}
		})
	}
}

// close ends the listeners, and the connections after a moment.
func (p *publishing) close() {
	for _, ln := range p.listeners {
		ln.Close()
	}
	p.serving.Wait()
}

// lowestPort is the lowest port that a command may listen on: it has no privileges.
const lowestPort = 1024

// checkPublish refuses ports that could not work or would lead somewhere else.
func checkPublish(cfg *config.Config, more []config.Publish) error {
	for _, p := range slices.Concat(cfg.Network.PublishPorts, more) {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("publishing port %s: %w", p, err)
		}
		reason := ""
		switch {
		case ownPort(p.Inside):
			reason = fmt.Sprintf("port %d inside is that of the sandbox's own proxy", p.Inside)
		case p.Inside < lowestPort:
			reason = fmt.Sprintf("a command cannot listen on port %d inside, only on ports of %d or more; let the server listen on another one and publish %d:THAT", p.Inside, lowestPort, p.Port)
		case slices.Contains(cfg.Network.AllowHostPorts, p.Inside):
			reason = fmt.Sprintf("network.allowHostPorts says that port %d inside is the one of this machine", p.Inside)
		default:
			continue
		}
		return &UnsupportedError{Setting: fmt.Sprintf("network.publishPorts or --publish %s", p), Reason: reason}
	}
	return nil
}

// checkHostPorts refuses ports that are taken inside.
func checkHostPorts(cfg *config.Config) error {
	const names = 53
	for i, port := range cfg.Network.AllowHostPorts {
		reason := ""
		switch {
		case ownPort(port):
			reason = fmt.Sprintf("port %d inside is that of the sandbox's own proxy", port)
		case port == names:
			reason = "srt answers on port 53 inside"
		default:
			continue
		}
		return &UnsupportedError{Setting: fmt.Sprintf("network.allowHostPorts[%d]", i), Reason: reason + "; give the service another port"}
	}
	return nil
}

// ownPort reports whether srt itself listens on a port inside.
func ownPort(port int) bool { return port == httpPort || port == socksPort }
