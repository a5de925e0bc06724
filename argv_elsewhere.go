package srt

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/srt-sandbox/srt/internal/launch"
)

var errElsewhere = errors.New("srt: another process runs the command")

// Converse: the terminal is that of the process that started the helper.
func (r *remote) Converse(context.Context, func(context.Context, io.ReadWriter) error) error {
	return launch.ErrNoTerminal
}

// The rest of [launch.Sandbox] happens in the helper.

func (r *remote) Build(context.Context, launch.Request) ([]net.Listener, error) {
	return nil, errElsewhere
}
func (r *remote) Start() error { return errElsewhere }
func (r *remote) Dial(context.Context, int) (net.Conn, error) {
	return nil, errElsewhere
}
func (r *remote) Wait() (launch.Status, error) {
	<-r.run.done
	return r.run.status, r.run.err
}
func (r *remote) Close() {}
