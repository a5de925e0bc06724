package srt

import (
	"context"
	"log/slog"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// Debug lines say what was decided and by which rule. They name paths, hosts and
// the program, never arguments, which may hold secrets.

// maxExplained bounds what debug lines list of one policy.
const maxExplained = 200

// explain tells the debug log what a command is held to.
func (s *Sandbox) explain(c *Cmd, cfg *config.Config, m means, pol *policy.Policy) {
	log := s.options.logger
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log.Debug("running a command", "program", c.Path, "directory", m.dir, "home", m.home, "backend", cfg.LinuxBackend(), "temporary", m.temp.variable())
	for _, p := range pol.Places[:min(len(pol.Places), maxExplained)] {
		log.Debug("file rule", "path", p.Path, "access", accessTo(&p), "visible", p.Rule.String(), "writable", p.WriteRule.String())
	}
	for _, a := range pol.Absent[:min(len(pol.Absent), maxExplained)] {
		log.Debug("file rule for a missing name", "path", a.Full, "rule", a.Rule.String())
	}
	if most := max(len(pol.Places), len(pol.Absent)); most > maxExplained {
		log.Debug("not every file rule is listed", "places", len(pol.Places), "missing names", len(pol.Absent))
	}
	for _, p := range pol.Creatable {
		log.Debug("missing path that may be created", "path", p.Path, "rule", p.Rule.String())
	}
	for _, r := range pol.Sockets {
		log.Debug("Unix socket rule", "path", r.Path, "rule", r.Rule.String())
	}
}

// accessTo is what a command may do at a place.
func accessTo(p *policy.Place) string {
	switch {
	case p.View == policy.Masked:
		return "none"
	case p.View == policy.Hidden && p.Scratch:
		return "hidden, writes are forgotten"
	case p.View == policy.Hidden:
		return "hidden"
	case p.Write:
		return "read and write"
	}
	return "read"
}

// explainEnd tells the debug log how a command ended.
func (s *Sandbox) explainEnd(status launch.Status, err error) {
	if err != nil {
		s.options.logger.Debug("the command did not run", "error", err)
		return
	}
	s.options.logger.Debug("the command ended", "status", status.ShellCode())
}

// explainAccess tells the debug log about a decision of the network filter.
func (s *Sandbox) explainAccess(a Access) {
	verdict := "deny"
	if a.Allowed {
		verdict = "allow"
	}
	s.options.logger.Debug("network", "verdict", verdict, "protocol", a.Protocol, "host", a.Host, "port", a.Port, "rule", a.Rule, "failure", a.Failure())
}
