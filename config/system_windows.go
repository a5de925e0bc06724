package config

import "os/user"

const homeVariable = "USERPROFILE"

// systemHome is the profile directory of the process's token.
func systemHome() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// symbol is empty: Windows errors have numbers and texts, no symbols.
func symbol(error) string { return "" }
