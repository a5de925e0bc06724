package srt

import (
	"net"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// ViolationBlock renders violations as the tagged block that tools put behind a
// command's error output; empty without violations.
func ViolationBlock(vs []Violation) string { return violation.Block(vs) }

// startFilter creates the network filter of a new sandbox. It listens nowhere
// yet: each command brings the sockets of its own namespace.
func (s *Sandbox) startFilter(cfg *config.Config) error {
	hosts, err := policy.NewHosts(cfg)
	if err != nil {
		return err
	}
	parent, err := proxy.NewParent(cfg.Network.ParentProxy, s.options.lookup, s.options.warn)
	if err != nil {
		return err
	}
	if parent.Resolves() && len(cfg.Network.DeniedResolvedAddresses) > 0 {
		s.options.warn("network.deniedResolvedAddresses does not hold for names that go through the parent proxy, which looks them up itself; name hosts that srt can resolve in network.parentProxy.noProxy, or use a socks5:// proxy")
	}
	mitm, err := proxy.NewMITM(cfg.Network.MITMProxy)
	if err != nil {
		return err
	}
	s.access = s.accessSink()
	s.filter = proxy.New(hosts, proxy.Options{
		Ask: s.options.ask, Record: s.addViolation, Access: s.access, Logger: s.options.logger, Warn: s.options.warn, Parent: parent, MITM: mitm,
		RefuseOpaqueTunnels: cfg.Network.RefuseOpaqueTunnels, RequireHostMatch: cfg.Network.RequireHostMatch,
		StripResponseHeaders: cfg.Network.StripResponseHeaders,
	})
	s.events.SetIgnore(cfg.IgnoreViolations)
	s.config.Store(cfg.Clone())
	return nil
}

// addViolation records a refusal.
func (s *Sandbox) addViolation(v Violation) {
	s.events.Add(v)
	if s.options.record != nil {
		s.options.record(v)
	}
}

// serveOn attaches one listener of a sandbox to the filter, or to the external
// proxy that the settings name for its port.
func (s *Sandbox) serveOn(ln net.Listener, cfg *config.Config, who proxy.Invocation) error {
	var external proxy.External
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		switch a.Port {
		case httpPort:
			external = proxy.External{Port: cfg.Network.HTTPProxyPort, Setting: "network.httpProxyPort"}
		case socksPort:
			external = proxy.External{Port: cfg.Network.SOCKSProxyPort, Setting: "network.socksProxyPort"}
		}
	}
	if external.Port != 0 {
		return s.filter.ServeForward(ln, external, who)
	}
	return s.filter.Serve(ln, who)
}
