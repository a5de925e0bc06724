package config

import "encoding/json"

// MarshalJSON writes lists that must be present as empty ones when they are nil,
// so that settings made by a program can be read back.
func (n Network) MarshalJSON() ([]byte, error) {
	type plain Network
	n.AllowedDomains, n.DeniedDomains = present(n.AllowedDomains), present(n.DeniedDomains)
	return json.Marshal(plain(n))
}

// MarshalJSON writes lists that must be present as empty ones when they are nil.
func (f Filesystem) MarshalJSON() ([]byte, error) {
	type plain Filesystem
	f.DenyRead, f.AllowWrite, f.DenyWrite = present(f.DenyRead), present(f.AllowWrite), present(f.DenyWrite)
	return json.Marshal(plain(f))
}

func present[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}
