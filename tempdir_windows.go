package srt

import "os"

// systemTempDir is empty: the system itself says where temporary files are.
const systemTempDir = ""

// lockDir opens a directory. Windows does not remove a directory that a process
// has open without sharing its deletion, which is lock enough.
func lockDir(path string) (*os.File, error) { return os.Open(path) }

// ownPrivateDir is false: the temporary directory is already private to the
// account, and leftovers cannot be told from directories in use.
func ownPrivateDir(string) bool { return false }
