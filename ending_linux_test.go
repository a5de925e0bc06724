package srt

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// When Wait returns nothing that the command started is left: each process holds
// the pipe, whose reader then finds its end. It is no matter of time.
func TestNothingOutlivesWait(t *testing.T) {
	sb := newSandbox(t, nil)
	for name, script := range map[string]string{
		"with others":     "for i in $(seq 50); do sleep 31337 & done; setsid sleep 31337 & exit 0",
		"without":         "exit 0",
		"with unreaped":   "for i in $(seq 50); do (sleep 0 &) ; done; exit 0",
		"killed together": "for i in $(seq 50); do sleep 31337 & done; kill -9 0",
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				pipe := [2]int{}
				if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
					t.Fatal(err)
				}
				read, write := os.NewFile(uintptr(pipe[0]), "read"), os.NewFile(uintptr(pipe[1]), "write")
				cmd := sb.Shell(t.Context(), script)
				cmd.Dir, cmd.Stdout, cmd.Stderr = workDir(t), write, write
				_ = cmd.Run()
				write.Close()
				if err := unix.SetNonblock(pipe[0], true); err != nil {
					t.Fatal(err)
				}
				if n, err := unix.Read(pipe[0], make([]byte, 1)); n != 0 || err != nil {
					t.Errorf("the command's output has not ended when the command has: %d, %v", n, err)
				}
				read.Close()
			}
		})
	}
}
