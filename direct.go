package srt

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/proxy"
)

// direct serves the connections that the programs of one run make without a
// proxy. It implements [launch.Direct].
type direct struct {
	*proxy.Direct
	sandbox *Sandbox
	// anywhere leads every address here, not only ports of this machine's loopback.
	anywhere bool

	mu     sync.Mutex
	closed bool
	open   []interface{ Close() error }
}

// direct returns nil where every program must use a proxy: when the settings say
// so, when other proxies do the filtering, when nothing could be reached anyway and
// without the guard. Ports of this machine's loopback that the settings open are exempt.
func (s *Sandbox) direct(c *Cmd, cfg *config.Config, who proxy.Invocation) *direct {
	n := &cfg.Network
	off := n.Transparent != nil && !*n.Transparent || n.HTTPProxyPort != 0 || n.SOCKSProxyPort != 0
	anywhere := !off && (len(n.AllowedDomains) > 0 || len(c.AllowDomains) > 0 || s.options.ask != nil)
	if cfg.Unguarded() || !anywhere && len(n.AllowHostPorts) == 0 {
		return nil
	}
	return &direct{Direct: s.filter.NewDirect(who), sandbox: s, anywhere: anywhere}
}

// attach puts d into a request.
func (d *direct) attach(r *launch.Request, n *config.Network) {
	if d == nil {
		return
	}
	r.Direct, r.Anywhere, r.HostPorts = d, d.anywhere, n.AllowHostPorts
	if d.anywhere {
		r.HostPorts = d.LoopbackPorts()
	}
}

// Names implements [launch.Direct].
func (d *direct) Names(datagrams []*net.UDPConn, streams []net.Listener) {
	for _, conn := range datagrams {
		if d.keep(conn) {
			go d.serve(func() error { return d.ServeNames(conn) })
		}
	}
	for _, ln := range streams {
		if d.keep(ln) {
			go d.serve(func() error { return d.ServeNamesOver(ln) })
		}
	}
}

// Judge implements [launch.Direct].
func (d *direct) Judge(ctx context.Context, to netip.AddrPort) bool { return d.Direct.Judge(ctx, to) }

// Serve implements [launch.Direct].
func (d *direct) Serve(ln net.Listener) {
	if d.keep(ln) {
		go d.serve(func() error { return d.Direct.Serve(ln) })
	}
}

func (d *direct) serve(f func() error) {
	if err := f(); err != nil && !errors.Is(err, net.ErrClosed) {
		d.sandbox.options.logger.Debug("serving a connection without a proxy", "error", err)
	}
}

// keep remembers what to close at the end; false when the end is over.
func (d *direct) keep(c interface{ Close() error }) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		c.Close()
		return false
	}
	d.open = append(d.open, c)
	return true
}

// close ends everything. A nil direct has nothing.
func (d *direct) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.open {
		c.Close()
	}
}
