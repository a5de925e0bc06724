//go:build race

package tcp

import "syscall"

// These tell the race detector what they touch, and what came before.

func read(fd int, p []byte) (int, error)  { return syscall.Read(fd, p) }
func write(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
