//go:build !linux

package proxy

// listen waits until the client leaves or the watch ends, and reports whether it is
// still there. early is what has been read then.
func (c *client) listen(early []byte, how watched) ([]byte, bool) {
	return c.listenByReading(early, how)
}

// breaksOff is a wait for the end of a connection without reading from it, which
// takes Linux: elsewhere it shows when something is sent.
func (c *client) breaksOff() bool { return false }
