package policy

import "github.com/srt-sandbox/srt/config"

// SocketRule admits the Unix sockets at a real path and beneath it, or, with a
// pattern, those beneath it whose rest of the path matches.
type SocketRule struct {
	Path    string
	Pattern string
	Rule    Rule
}

// socketRules resolves network.allowUnixSockets. Like a write root, an entry that
// leads through a link counts only where no command can have planted the link.
func (r *resolver) socketRules() error {
	var entries []config.PathEntry
	for _, s := range r.in.Config.Network.AllowUnixSockets {
		entries = append(entries, config.PathEntry{Path: s})
	}
	tops := r.rootPaths()
	for _, it := range items("network.allowUnixSockets", "", entries) {
		readings, err := r.readings(it, true)
		if err != nil {
			return err
		}
		for _, rd := range readings {
			name := rd.name
			if rd.pattern != "" {
				name = rd.dir
			}
			l, err := r.land(name, true)
			if err != nil {
				r.warn(it.rule, "has no effect: "+err.Error())
				continue
			}
			if bad := r.untrusted(l.links, tops); bad != "" {
				r.warn(it.rule, "has no effect: "+bad+" is a symbolic link that a command could have planted; name its target instead")
				continue
			}
			pattern := rd.pattern
			if pattern != "" && rd.subtree {
				pattern += "/**"
			}
			r.out.Sockets = append(r.out.Sockets, SocketRule{Path: l.path, Pattern: pattern, Rule: it.rule})
		}
	}
	return nil
}

// rootPaths lists the places that commands of these settings can write.
func (r *resolver) rootPaths() []string {
	var tops []string
	for _, n := range r.nodes {
		if n.root {
			tops = append(tops, n.path)
		}
	}
	return tops
}
