package srt

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
)

// Without a controlling terminal there is no conversation, and the command
// is not touched.
func TestConverseWithoutTerminal(t *testing.T) {
	if !hasNoTerminal() {
		t.Skip("these tests run on a terminal")
	}
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "cat")
	in, err := newPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in.r
	talk := func(context.Context, io.ReadWriter) error { t.Error("called"); return nil }
	if err := cmd.Converse(t.Context(), talk); !errors.Is(err, ErrNotStarted) {
		t.Errorf("%v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Converse(t.Context(), talk); !errors.Is(err, ErrNoTerminal) {
		t.Errorf("%v", err)
	}
	in.w.Close() // the command has lived until now
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := cmd.Converse(t.Context(), talk); err == nil {
		t.Error("a conversation with a command that has ended")
	}
}

func hasNoTerminal() bool {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil {
		syscall.Close(fd)
	}
	return err != nil
}
