package srt

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
)

// direct serves the connections that the programs of one run make without a
// proxy. It implements [launch.Direct].
type direct struct {
	*proxy.Direct
	sandbox *Sandbox
	// anywhere leads every address here, and every name lookup, not only ports of this
	// machine's loopback.
	anywhere bool

	mu     sync.Mutex
	closed bool
	open   []interface{ Close() error }
}

// direct returns nil without the guard. Where programs must use a proxy, because the
// settings say so or other proxies do the filtering, it serves ports of this machine's
// loopback that the settings open, and says why the rest cannot be reached.
func (s *Sandbox) direct(cfg *config.Config, who proxy.Invocation) *direct {
	if cfg.Unguarded() {
		return nil
	}
	d := &direct{Direct: s.filter.NewDirect(who), sandbox: s, anywhere: true}
	n := &cfg.Network
	switch {
	case n.Transparent != nil && !*n.Transparent:
		d.anywhere = false
		d.Closed = &proxy.Closed{
			Reason: "programs without proxy support have no network",
			Rule:   policy.Rule{Setting: "network.transparent", Cure: "set network.transparent to true, or let the program use the proxy variables"},
		}
	case n.HTTPProxyPort != 0:
		d.Closed = closedBy("network.httpProxyPort")
	case n.SOCKSProxyPort != 0:
		d.Closed = closedBy("network.socksProxyPort")
	}
	return d
}

func closedBy(setting string) *proxy.Closed {
	return &proxy.Closed{
		Reason: "programs without proxy support have no network while another proxy does the filtering", Unfiltered: true,
		Rule: policy.Rule{Setting: setting, Cure: "let the program use the proxy variables, or unset " + setting},
	}
}

// attach puts d into a request.
func (d *direct) attach(r *launch.Request, n *config.Network) {
	if d == nil {
		return
	}
	r.Direct, r.Anywhere, r.HostPorts = d, d.anywhere, n.AllowHostPorts
	if d.Closed == nil {
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
