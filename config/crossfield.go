package config

import (
	"fmt"

	"github.com/srt-sandbox/srt/internal/hostname"
)

// conflicts checks rules that concern several values. It runs on settings whose
// single values are right.
func (c *Config) conflicts(d *decoder) {
	c.inertDenies(d)
	c.authorityPair(d)
	if c.Credentials == nil {
		return
	}
	h := newInjection(&c.Network)
	for i, f := range c.Credentials.Files {
		at := fmt.Sprintf("credentials.files.%d", i)
		h.check(d, at, f.Mode, f.InjectHosts)
		checkClaims(d, at, f.Decode, f.MaskClaims)
		if f.Mode == "mask" && localSpelling().endsInSeparator(f.Path) {
			d.add(at+".path", "format", "names a directory; only a single file can be masked")
		}
	}
	for i, v := range c.Credentials.EnvVars {
		at := fmt.Sprintf("credentials.envVars.%d", i)
		h.check(d, at, v.Mode, v.InjectHosts)
		checkClaims(d, at, v.Decode, v.MaskClaims)
	}
	c.awsPairs(d)
	c.injectionPossible(d)
}

func (c *Config) authorityPair(d *decoder) {
	if t := c.Network.TLSTerminate; t != nil && (t.CACertPath == "") != (t.CAKeyPath == "") {
		d.add("network.tlsTerminate", "conflict", "caCertPath and caKeyPath must be given together")
	}
	if c.Network.TLSTerminate != nil && c.Network.MITMProxy != nil {
		d.add("network.tlsTerminate", "conflict", "tlsTerminate and mitmProxy are mutually exclusive")
	}
}

func checkClaims(d *decoder, at, decode string, claims []string) {
	if claims != nil && decode == "" {
		d.add(at+".maskClaims", "conflict", "requires decode")
	}
}

// injection knows where a masked secret may be put in.
type injection struct {
	allowed, excluded []hostname.Pattern
}

func newInjection(n *Network) *injection {
	h := &injection{allowed: patterns(n.AllowedDomains, hostname.ParseAllow)}
	if n.TLSTerminate != nil {
		h.excluded = patterns(n.TLSTerminate.ExcludeDomains, hostname.ParseHostOnly)
	}
	return h
}

// patterns parses entries; those that are wrong were reported before.
func patterns(entries []string, parse func(string) (hostname.Pattern, error)) []hostname.Pattern {
	var ps []hostname.Pattern
	for _, e := range entries {
		if p, err := parse(e); err == nil {
			ps = append(ps, p)
		}
	}
	return ps
}

func covered(by []hostname.Pattern, q hostname.Pattern) bool {
	for _, p := range by {
		if p.Covers(q) {
			return true
		}
	}
	return false
}

func (h *injection) check(d *decoder, at, mode string, hosts []string) {
	if mode == "mask" && hosts != nil && len(hosts) == 0 {
		d.add(at+".injectHosts", "nonempty", "must not be empty: the secret could never be used")
	}
	for i, q := range patterns(hosts, hostname.ParseHostOnly) {
		where := fmt.Sprintf("%s.injectHosts.%d", at, i)
		if !covered(h.allowed, q) {
			d.add(where, "conflict", fmt.Sprintf("%q is not covered by network.allowedDomains", q.String()))
		}
		if mode == "mask" && covered(h.excluded, q) {
			d.add(where, "conflict", fmt.Sprintf("%q is excluded from TLS termination, so the secret could never be put in", q.String()))
		}
	}
	if mode == "mask" && hosts == nil && len(h.allowed) > 0 && h.allExcluded() {
		d.add(at, "conflict", "every allowed host is excluded from TLS termination, so the secret could never be put in")
	}
}

func (h *injection) allExcluded() bool {
	for _, p := range h.allowed {
		if !covered(h.excluded, p) {
			return false
		}
	}
	return true
}

// awsPairs checks that each named variable is masked whole and used once.
func (c *Config) awsPairs(d *decoder) {
	used := map[string]bool{}
	for i, p := range c.Credentials.AWSPairs {
		for _, slot := range []struct{ key, name string }{
			{"accessKeyIdVar", p.AccessKeyIDVar}, {"secretAccessKeyVar", p.SecretAccessKeyVar}, {"sessionTokenVar", p.SessionTokenVar},
		} {
			if slot.name == "" {
				continue
			}
			at := fmt.Sprintf("credentials.awsPairs.%d.%s", i, slot.key)
			if used[slot.name] {
				d.add(at, "conflict", fmt.Sprintf("%s is used twice", slot.name))
			}
			used[slot.name] = true
			if !c.maskedWhole(slot.name) {
				d.add(at, "conflict", fmt.Sprintf("%s needs a credentials.envVars entry with mode \"mask\" and neither extract nor decode", slot.name))
			}
		}
	}
}

// maskedWhole reports whether a variable is masked and no entry masks only a
// part of it.
func (c *Config) maskedWhole(name string) bool {
	masked := false
	for _, v := range c.Credentials.EnvVars {
		if v.Name != name {
			continue
		}
		if v.Mode != "mask" || v.Extract != "" || v.Decode != "" {
			return false
		}
		masked = true
	}
	return masked
}

// injectionPossible refuses masks that nothing could replace again.
func (c *Config) injectionPossible(d *decoder) {
	if c.Network.TLSTerminate != nil || c.Credentials.AllowPlaintextInject {
		return
	}
	const message = "mode \"mask\" needs network.tlsTerminate (or credentials.allowPlaintextInject)"
	for i, f := range c.Credentials.Files {
		if f.Mode == "mask" {
			d.add(fmt.Sprintf("credentials.files.%d", i), "conflict", message)
		}
	}
	for i, v := range c.Credentials.EnvVars {
		if v.Mode == "mask" {
			d.add(fmt.Sprintf("credentials.envVars.%d", i), "conflict", message)
		}
	}
}
