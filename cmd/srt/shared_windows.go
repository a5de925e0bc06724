package main

import "os"

// sharedFile is a stream that the command may have as well.
type sharedFile struct{ file *os.File }

// File is the stream.
func (f sharedFile) File() *os.File { return f.file }

// Write writes to the stream.
func (f sharedFile) Write(p []byte) (int, error) { return f.file.Write(p) }
