package policy

import "os"

func (osFS) Lstat(path string) (Info, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{Kind: kindOf(fi.Mode().Type()), Mode: fi.Mode().Perm(), UID: -1}, nil
}

func passing(error) bool   { return false }
func isNotDir(error) bool  { return false }
func isTooLong(error) bool { return false }

const openNonblock = 0
