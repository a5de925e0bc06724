package proxy

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/srt-sandbox/srt/internal/violation"
)

const (
	statusAuth = "407 Proxy Authentication Required"

	// userPlain is the user name without a command's key, userKeyed begins one
	// with it. These and the limits are those of the TypeScript srt, whose
	// environment variables clients may hold.
	userPlain = "srt"
	userKeyed = "srt."
	maxKey    = 251 // bytes, so that the user name fits the 255 of RFC 1929
	maxLabel  = 100 // UTF-16 code units of an unknown key that are shown
)

// authenticate checks the credentials of a request and finds the command behind
// them. Nothing is decided, recorded or dialed for a client that has none.
func (c *client) authenticate(h *head) (Invocation, bool) {
	if c.who.Token == "" {
		return c.who, true
	}
	lines := h.values("Proxy-Authorization")
	if len(lines) != 1 {
		return Invocation{}, false
	}
	user, password, ok := parseBasic(lines[0])
	if !ok || user == "" || !c.isToken(password) {
		return Invocation{}, false
	}
	return c.attribute(user), true
}

// isToken compares in a time that does not depend on where the texts differ.
func (c *client) isToken(password string) bool {
	return subtle.ConstantTimeCompare([]byte(password), []byte(c.who.Token)) == 1
}

// parseBasic reads credentials of RFC 7617; padding may be missing.
func parseBasic(value string) (user, password string, ok bool) {
	scheme, encoded, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "basic") {
		return "", "", false
	}
	encoded = strings.TrimRight(strings.Trim(encoded, " "), "=")
	plain, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return "", "", false
	}
	return strings.Cut(string(plain), ":")
}

// attribute finds the command that a user name stands for. The name is what a
// client says: a label, which matters only where the listener does not already
// belong to one command.
func (c *client) attribute(user string) Invocation {
	who := c.who
	if who.ID != "" {
		return who
	}
	key, ok := userKey(user)
	if !ok {
		return who
	}
	if c.s.o.Identify != nil {
		if known, found := c.s.o.Identify(key); found {
			known.Token = who.Token
			return known
		}
	}
	who.ID = base64.StdEncoding.EncodeToString([]byte(key))
	who.Command = violation.Truncate(violation.Sanitize(key), maxLabel)
	return who
}

// userKey reads the key in a user name: base64 in either alphabet, with or
// without padding.
func userKey(user string) (string, bool) {
	encoded, ok := strings.CutPrefix(user, userKeyed)
	if !ok || encoded == "" || len(encoded) > maxKey {
		return "", false
	}
	encoded = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(encoded, "="))
	plain, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil || len(plain) == 0 {
		return "", false
	}
	return strings.ToValidUTF8(string(plain), "\ufffd"), true
}
