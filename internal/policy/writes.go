package policy

import (
	"errors"
	"path"
)

// denial is what a write deny carries beside its name.
type denial struct {
	rule Rule
	// fold protects a missing name under every mixture of upper and lower case.
	fold bool
	// found marks a name that srt found and nobody configured: a circle of links
	// there is kept as it is instead of stopping the start.
	found bool
}

// writeDenies records denyWrite and the files that decide about later runs.
func (r *resolver) writeDenies() error {
	for _, it := range items("filesystem.denyWrite", "remove ENTRY from filesystem.denyWrite", r.in.Config.Filesystem.DenyWrite) {
		it.PathEntry = wholeTree(it.PathEntry)
		readings, err := r.readings(it, false)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			if rd.pattern == "" {
				err = r.denyWrite(rd.name, denial{rule: it.rule})
			} else {
				err = r.denyWritePattern(rd, it.rule)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, p := range r.in.Protected {
		it := item{PathEntry: literal(p), rule: builtIn(p)}
		readings, err := r.readings(it, false)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			if err := r.denyWrite(rd.name, denial{rule: it.rule}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *resolver) denyWritePattern(rd reading, rule Rule) error {
	found, err := r.expand(rd, rule, nil)
	if err != nil {
		return err
	}
	for _, m := range found {
		for _, name := range []string{m.path, m.link} {
			if name == "" {
				continue
			}
			if err := r.denyWrite(name, denial{rule: rule}); err != nil {
				return err
			}
		}
	}
	r.warn(rule, "protects the files that match now; files that appear later and match are not covered")
	return nil
}

// denyWrite protects a name, existing or not, and every link on the way to it.
func (r *resolver) denyWrite(name string, d denial) error {
	for range maxLinks {
		if fresh(path.Clean(name)) {
			r.warnFresh(d.rule)
			return nil
		}
		l, err := r.land(name, true)
		if errors.Is(err, errLinkCycle) {
			return r.denyCycle(l, d, err)
		}
		if err != nil {
			return err
		}
		r.pinLinks(l.links)
		r.denyLanding(l, d)
		if !l.upward || len(l.links) == 0 {
			return nil
		}
		// A link says "missing/..": both the missing name and what lies
		// behind it are kept.
		name = l.path
	}
	return nil
}

func (r *resolver) denyLanding(l landing, d denial) {
	switch {
	case fresh(l.path):
		r.warnFresh(d.rule)
	case l.closed != "":
		if c, err := r.land(l.closed, true); err == nil && !c.done() {
			r.protect(c, d.rule)
		}
	case l.first != "":
		if !l.upward || len(l.links) > 0 {
			r.forbid(l, d.rule, d.fold, false)
		}
	default:
		r.protect(l, d.rule)
	}
}

// denyCycle: a name that leads in a circle is protected by keeping its links;
// for a configured one srt does not start, because the entry cannot mean it. A
// chain that is merely too long can be shortened by whoever owns its end.
func (r *resolver) denyCycle(l landing, d denial, cause error) error {
	writable := false
	for _, link := range l.links {
		writable = writable || r.inRoot(link)
	}
	switch {
	case !writable:
	case d.found && l.circular():
		r.pinLinks(l.links)
	default:
		return &Error{Code: "link_cycle", Setting: d.rule.Setting, Entry: d.rule.Entry, Reason: "it cannot be protected", Err: cause}
	}
	return nil
}

func (r *resolver) protect(l landing, rule Rule) {
	n := r.at(l)
	if !n.writeDeny {
		n.writeDeny, n.writeDenyRule = true, rule
	}
}
