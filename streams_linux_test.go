package srt

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var errStream = errors.New("the stream is broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errStream }

// What a reader or writer of the caller's fails with is not lost, and the command
// learns of it as from a pipe that nobody reads.
func TestStreamErrors(t *testing.T) {
	sb := newSandbox(t, nil)
	cmd := sb.Command(t.Context(), "yes")
	cmd.Stdout = brokenWriter{}
	var exit *ExitError
	if err := within(t, cmd.Run); !errors.As(err, &exit) || exit.Signal != 13 {
		t.Errorf("writing more than fails: %v", err)
	}
	cmd = sb.Shell(t.Context(), "echo x")
	cmd.Stdout = brokenWriter{}
	if err := within(t, cmd.Run); !errors.Is(err, errStream) {
		t.Errorf("writing: %v", err)
	}
	cmd = sb.Command(t.Context(), "cat")
	cmd.Stdin = io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errStream))
	out, err := cmd.Output()
	if string(out) != "half" || !errors.Is(err, errStream) {
		t.Errorf("reading: %q, %v", out, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A command need not read its input.
func TestUnreadInput(t *testing.T) {
	sb := newSandbox(t, nil)
	silent, w := io.Pipe()
	defer w.Close()
	for name, r := range map[string]io.Reader{"endless": endless{}, "silent": silent} {
		cmd := sb.Command(t.Context(), "true")
		cmd.Stdin = r
		if err := within(t, cmd.Run); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// A command that does not start keeps no descriptor open.
func TestFailedStartKeepsNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes lost files
	sb := newSandbox(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := 0
	for i := range 20 {
		cmd := sb.Command(ctx, "true")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("x"), io.Discard, brokenWriter{}
		if err := cmd.Start(); err == nil {
			t.Fatal("it starts")
		}
		if i == 4 {
			before = open()
		}
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// What execve(2) calls an invalid argument is named.
func TestStringsWithNUL(t *testing.T) {
	sb := newSandbox(t, nil)
	for want, change := range map[string]func(*Cmd){
		"the program's name":              func(c *Cmd) { c.Path = "a\x00b" },
		"argument 1":                      func(c *Cmd) { c.Args = append(c.Args, "a\x00b") },
		`the environment variable "NAME"`: func(c *Cmd) { c.Env = []string{"X=1", "NAME=\x00"} },
	} {
		cmd := sb.Command(t.Context(), "true")
		change(cmd)
		var start *StartError
		if err := cmd.Run(); !errors.As(err, &start) || !strings.Contains(start.Text, want+" holds a NUL byte") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
