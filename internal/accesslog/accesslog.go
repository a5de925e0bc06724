// Package accesslog writes one JSON line for each decision of the network
// filter. Traffic never waits for it: what a slow reader or a full disk does not
// take is counted and left out.
package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/violation"
)

const (
	// maxLine is the size up to which pipes take a write as a whole, see pipe(7).
	maxLine = 4096
	// maxWaiting bounds the lines that wait, 4 MiB at most.
	maxWaiting = 1024
	maxText    = 255 // of one field, in UTF-16 code units
	// closeTime is how long the end of a run waits for a reader.
	closeTime = 2 * time.Second
)

// Log is an access log. Its methods are safe for concurrent use.
type Log struct {
	w     io.Writer
	warn  func(string)
	wrote chan struct{} // closed when the writing goroutine has ended

	mu     sync.Mutex
	closed bool
	lines  chan []byte
	lost   uint64 // lines that nobody took and that are not accounted for yet
	warned map[string]bool
	said   []chan struct{} // for each warning, closed when it has been passed on
}

// New returns a log that writes to w, each line in one call. warn is told once
// about each kind of trouble.
func New(w io.Writer, warn func(string)) *Log {
	l := &Log{w: w, warn: warn, wrote: make(chan struct{}), lines: make(chan []byte, maxWaiting), warned: map[string]bool{}}
	go l.write()
	return l
}

// Add queues one entry and returns at once.
func (l *Log) Add(a proxy.Access) {
	line := encode(newRecord(a))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.lines <- line:
	default:
		l.lost++
		l.say("writing the access log: the reader is too slow; lines are left out and counted")
	}
}

// Close writes what waits, as far as the reader takes it in time, and passes the
// last warnings on. The writer is the caller's to close.
func (l *Log) Close() {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	if !already {
		close(l.lines)
	}
	l.mu.Unlock()
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	select {
	case <-l.wrote:
	case <-limit.C:
		l.mu.Lock()
		l.say("writing the access log: the reader does not take the last lines; they are lost")
		l.mu.Unlock()
	}
	l.awaitWarnings()
}

func (l *Log) awaitWarnings() {
	l.mu.Lock()
	said := l.said
	l.mu.Unlock()
	limit := time.After(closeTime)
	for _, passed := range said {
		select {
		case <-passed:
		case <-limit:
			return
		}
	}
}

// say passes a warning on, each text once. The lock must be held, so nobody waits for
// who is warned: they may take long, like the reader of the log.
func (l *Log) say(text string) {
	if !l.warned[text] {
		l.warned[text] = true
		passed := make(chan struct{})
		l.said = append(l.said, passed)
		go func() {
			defer close(passed)
			l.warn(text)
		}()
	}
}

func (l *Log) write() {
	defer close(l.wrote)
	out := &output{w: l.w}
	for line := range l.lines {
		l.gap(out)
		l.put(out, line)
	}
	l.gap(out)
}

// gap accounts for lines that are missing here.
func (l *Log) gap(out *output) {
	l.mu.Lock()
	n := l.lost
	l.lost = 0
	l.mu.Unlock()
	if n == 0 {
		return
	}
	if err := out.put(fmt.Appendf(nil, "{\"time\":%q,\"lost\":%d}\n", stamp(time.Now()), n)); err != nil {
		l.missed(n, err)
	}
}

func (l *Log) put(out *output, line []byte) {
	if err := out.put(line); err != nil {
		l.missed(1, err)
	}
}

func (l *Log) missed(n uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += n
	cause := err
	var path *os.PathError
	if errors.As(err, &path) {
		cause = path.Err // the name is the user's or means nothing
	}
	l.say("writing the access log: " + cause.Error() + "; the command goes on, lines are left out and counted")
}

// output keeps lines whole on a writer that may take parts of them.
type output struct {
	w    io.Writer
	torn bool  // the last line is incomplete
	gone error // nobody reads any more
}

func (o *output) put(line []byte) error {
	if o.gone != nil {
		return o.gone
	}
	if o.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := o.w.Write(line)
	switch {
	case err == nil && n == len(line):
		o.torn = false
		return nil
	case err == nil:
		err = io.ErrShortWrite
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, syscall.ECONNRESET):
		o.gone = err
		return err
	}
	if n > 0 && !o.takeBack(n) {
		o.torn = true
	}
	return err
}

// takeBack removes the part of a line that reached a file before the disk was
// full, unless somebody else has written behind it.
func (o *output) takeBack(n int) bool {
	f := fileOf(o.w)
	if f == nil {
		return false
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at != st.Size() || at < int64(n) || f.Truncate(at-int64(n)) != nil {
		return false
	}
	// Without O_APPEND the next line would leave a hole.
	_, err = f.Seek(at-int64(n), io.SeekStart)
	return err == nil
}

// fileOf returns nil for a writer that is no file and writes to none.
func fileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case interface{ File() *os.File }:
		return w.File()
	}
	return nil
}

// record is one line. Nothing in it comes from a URL's path, a header or the
// command's arguments.
type record struct {
	Time       string  `json:"time"`
	Invocation string  `json:"invocation,omitempty"`
	Frontend   string  `json:"frontend"`
	Host       string  `json:"host"`
	Port       int     `json:"port,omitempty"`
	Address    string  `json:"address,omitempty"`
	Via        string  `json:"via,omitempty"`
	Verdict    string  `json:"verdict"`
	Rule       string  `json:"rule"`
	Reason     string  `json:"reason,omitempty"`
	Setting    string  `json:"setting,omitempty"`
	Error      string  `json:"error,omitempty"`
	Sent       int64   `json:"sent"`
	Received   int64   `json:"received"`
	Duration   float64 `json:"duration"`
}

func newRecord(a proxy.Access) record {
	r := record{
		Time: stamp(a.Time), Invocation: text(a.CommandID), Frontend: a.Protocol, Host: text(a.Host), Port: a.Port, Address: text(a.Address), Via: a.Via,
		Verdict: "deny", Rule: text(a.Rule), Reason: text(a.Reason), Setting: text(a.Setting), Error: a.Failure(),
		Sent: a.Sent, Received: a.Received, Duration: math.Round(a.Duration.Seconds()*1e6) / 1e6,
	}
	switch {
	case a.Protocol == proxy.ProtocolExternal:
		r.Verdict = "unfiltered" // its proxy decides, and tells nobody here
	case a.Allowed:
		r.Verdict = "allow"
	case r.Error != "": // nobody was left to decide for
		r.Verdict = "abandoned"
	}
	return r
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func text(s string) string { return violation.Truncate(violation.Sanitize(s), maxText) }

// encode renders a record in one line that is never longer than a pipe takes at
// once.
func encode(r record) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(r) // plain texts and numbers
	if b.Len() > maxLine {
		r.Reason, r.Setting, r.Rule = "", "", "" // in some script that takes many bytes
		b.Reset()
		_ = enc.Encode(r)
	}
	return b.Bytes()
}
