package srt

import (
	"fmt"
	"strings"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/policy"
)

// lostWithoutGuard is said once where linux.guard is "off".
const lostWithoutGuard = `linux.guard is "off": refused changes are not reported; protected names that do not exist yet can be created, ` +
	`and are only moved aside when the command has ended; hooks and configuration of repositories that the command makes are not looked at; allowWrite entries that do not exist cannot be created; ` +
	`Unix sockets are refused unless network.allowAllUnixSockets is set; programs reach the network through the proxy variables only`

const needsGuard = `it needs the guard; remove linux.guard "off", or this`

// checkGuard refuses settings that nothing but the guard can carry out.
func checkGuard(c *config.Config) error {
	if !c.Unguarded() {
		return nil
	}
	n := &c.Network
	for _, f := range []struct {
		set     bool
		setting string
	}{
		{c.LinuxBackend() == config.BackendLandlock, `linux.backend "landlock"`},
		{len(n.AllowHostPorts) > 0, "network.allowHostPorts"},
		{len(n.AllowUnixSockets) > 0 && !n.AllowAllUnixSockets, "network.allowUnixSockets"},
		{n.Transparent != nil && *n.Transparent, "network.transparent"},
	} {
		if f.set {
			return &UnsupportedError{Setting: f.setting, Reason: needsGuard}
		}
	}
	return nil
}

// checkUnguarded says what is lost without the guard, and refuses to lose what the
// settings themselves ask for.
func (s *Sandbox) checkUnguarded(c *Cmd, cfg *config.Config, p *policy.Policy) error {
	if !cfg.Unguarded() {
		return nil
	}
	if c.Trace {
		return &UnsupportedError{Setting: "--trace", Reason: needsGuard}
	}
	for _, a := range p.Absent {
		if strings.HasPrefix(a.Rule.Setting, "filesystem.") || strings.HasPrefix(a.Rule.Setting, "credentials.") {
			return &UnsupportedError{Setting: a.Rule.String(), Reason: fmt.Sprintf(`%s does not exist, and without the guard nothing keeps the command from making it; create it, or remove linux.guard "off"`, a.Full)}
		}
	}
	for _, c := range p.Creatable {
		s.options.warn(fmt.Sprintf(`%s has no effect: %s does not exist, and without the guard it cannot be created`, c.Rule, c.Path))
	}
	s.unguarded.Do(func() { s.options.warn(lostWithoutGuard) })
	return nil
}
