//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/job"
)

// maxControlLine bounds one configuration on the control channel.
const maxControlLine = 16 << 20

// control is the channel on which whoever started srt sends configurations
// while the command runs: one JSON object a line, each replacing the last.
type control struct {
	fd      int
	records bool // a socket that keeps records apart: each is a line
	m       *messages
	sb      *srt.Sandbox
	lines   int
	buf     []byte
	skip    bool // the rest of a line that is too long
}

// openControl checks the descriptor without reading from it. It is kept from
// every other process: the command must never read or write the channel.
func openControl(fd int, m *messages) (*control, error) {
	if fd == 0 {
		return nil, nil
	}
	fail := func(reason string) (*control, error) {
		return nil, fmt.Errorf("using --control-fd %d: %s", fd, reason)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fail("the descriptor is not open")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err.Error())
	}
	switch {
	case flags&unix.O_ACCMODE == unix.O_WRONLY:
		return fail("the descriptor is not open for reading")
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fail("the descriptor is a directory")
	}
	unix.CloseOnExec(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return &control{fd: fd, m: m, records: err == nil && kind != unix.SOCK_STREAM}, nil
}

// follow applies configurations until the channel ends. A channel that fails
// before it delivered anything ends the command: whoever sends rules must learn
// that nobody reads them.
func (c *control) follow(sb *srt.Sandbox, failed func(error)) {
	if c == nil {
		return
	}
	c.sb = sb
	go func() {
		err := c.read()
		switch {
		case err == nil:
		case c.lines == 0:
			failed(fmt.Errorf("reading control fd %d: %w", c.fd, err))
		default:
			c.m.plain(fmt.Sprintf("srt: reading control fd %d: %v; no further updates", c.fd, err))
		}
	}()
}

// read returns nil at the end of the channel. The descriptor may be shared with
// other processes, so its flags are left alone: where it does not block, poll(2) waits.
func (c *control) read() error {
	chunk := make([]byte, 64<<10)
	for {
		n, err := unix.Read(c.fd, chunk)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, -1)
		case err != nil:
			return err
		case n == 0:
			c.end()
			return nil
		default:
			c.take(chunk[:n])
			if c.records {
				c.end()
			}
		}
	}
}

// take splits what arrived into lines.
func (c *control) take(data []byte) {
	for {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		if !c.skip {
			c.buf = append(c.buf, line...)
		}
		if len(c.buf) > maxControlLine {
			c.buf, c.skip = nil, true
			c.reject(errors.New("the line is too long"))
		}
		if !complete {
			return
		}
		c.end()
		data = rest
	}
}

// end finishes the line that is being collected.
func (c *control) end() {
	line := bytes.TrimSpace(c.buf)
	c.buf, c.skip = c.buf[:0], false
	if len(line) == 0 {
		return
	}
	c.lines++
	cfg, unknown, err := config.Parse(line)
	for _, k := range unknown {
		c.m.unknownKey("control fd "+strconv.Itoa(c.fd), k)
	}
	if err == nil {
		err = c.sb.Update(cfg)
	}
	if err != nil {
		c.reject(err)
	}
}

func (c *control) reject(err error) {
	c.m.plain("srt: ignored an invalid configuration on control fd " + strconv.Itoa(c.fd) + "; the previous one stays in force")
	c.m.debugf("control fd %d: %v", c.fd, err)
}

// endByControl ends a command whose control channel failed.
func endByControl(cmd *srt.Cmd) {
	_ = cmd.Signal(unix.SIGTERM)
	time.AfterFunc(job.Grace, func() { _ = cmd.Kill() })
}
