// Package policy turns settings into one resolved, immutable policy and answers
// questions about it: may this path be read or written, may this host be
// reached, and which rule decided. Every enforcer translates these answers, and
// every message to a person quotes the rule.
package policy

// Rule names what decided an answer, in the words of the settings file.
type Rule struct {
	// Setting is the settings key with its index, for example
	// "filesystem.denyRead[0]", or "built-in" for a protection that no list holds.
	Setting string
	// Entry is the list entry as written, or the protected name of a built-in rule.
	Entry string
	// Cure is one phrase that says which setting would allow the operation; empty
	// where no setting can.
	Cure string
}

// String returns the setting and its entry, for messages.
func (r Rule) String() string {
	if r.Entry == "" {
		return r.Setting
	}
	return r.Setting + " " + `"` + r.Entry + `"`
}
