package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/internal/violation"
)

const (
	defaultAskTimeout = time.Minute
	// maxUnanswered questions in a row mean that nobody sits at the terminal.
	maxUnanswered = 3
	// maxTries bounds answers that are none, to one question.
	maxTries  = 3
	maxAnswer = 64
	// maxShownCommand bounds the command in a question, in UTF-16 code units.
	maxShownCommand = 60
	// maxKnown bounds the answers that are remembered.
	maxKnown = 10_000
	// burst is how long an answer for one connection holds for others to the same
	// place: programs open several at once, and were stopped while they did.
	burst = time.Second
)

// Reasons that the command's programs are told.
const (
	reasonNoAnswer   = "nobody answered the question in time"
	reasonNotAsked   = "nobody could be asked"
	reasonNeverAgain = "user denied for this run"
)

// asker asks the person at the controlling terminal about hosts that no list
// decides about, one question at a time.
type asker struct {
	m       *messages
	timeout time.Duration
	cmd     atomic.Pointer[srt.Cmd]
	waiting atomic.Int32
	turn    chan struct{} // holds an element while somebody is asked

	mu         sync.Mutex
	known      map[string]answer // by destination
	unanswered int               // in a row
	off        string            // why nobody is asked any more, if so
	gaveUp     time.Time         // when a question last went unanswered
}

// answer is a decision that is remembered, for the run without an end.
type answer struct {
	srt.AskDecision
	ends time.Time
}

// newAsker returns nil where nobody is to be asked or can be: hosts that no list
// mentions are then refused, as without --ask.
func newAsker(o *options, m *messages) *asker {
	if !o.ask {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		m.warn("--ask has no effect: there is no controlling terminal to ask on; hosts that no list mentions are refused")
		return nil
	}
	tty.Close()
	a := &asker{m: m, timeout: defaultAskTimeout, turn: make(chan struct{}, 1), known: map[string]answer{}}
	if o.askTimeout != 0 {
		a.timeout = o.askTimeout
	}
	return a
}

// attach names the command that is stopped while somebody is asked.
func (a *asker) attach(cmd *srt.Cmd) {
	if a != nil {
		a.cmd.Store(cmd)
	}
}

// ask answers one question of the filter.
func (a *asker) ask(ctx context.Context, q srt.AskRequest) (srt.AskDecision, error) {
	key := destination(q)
	arose := time.Now()
	if d, ok := a.answered(key, arose); ok {
		return d, nil
	}
	cmd := a.cmd.Load()
	if cmd == nil {
		return srt.AskDecision{Reason: reasonNotAsked}, nil
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return srt.AskDecision{}, ctx.Err()
	}
	// An answer to another question may have settled this one. Then the command is not
	// stopped for nothing.
	if d, ok := a.answered(key, arose); ok {
		return d, nil
	}
	var r reply
	err := cmd.Converse(ctx, func(ctx context.Context, terminal io.ReadWriter) (err error) {
		r, err = a.talk(ctx, terminal, q)
		return err
	})
	switch {
	case err == nil:
		return a.take(key, r), nil
	case ctx.Err() != nil:
		return srt.AskDecision{}, err
	}
	if !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, context.Canceled) {
		a.m.warn("--ask: " + err.Error() + "; the connection is refused")
	}
	return srt.AskDecision{Reason: reasonNotAsked}, nil
}

// destination is what an answer for the whole run holds for.
func destination(q srt.AskRequest) string {
	host := violation.Sanitize(q.Host) // canonical and safe already
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprint(host, ":", q.Port)
}

// answered looks for an answer that needs no question. Who did not answer one
// question does not answer those that waited behind it either.
func (a *asker) answered(key string, arose time.Time) (srt.AskDecision, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, ok := a.known[key]; ok && (d.ends.IsZero() || time.Now().Before(d.ends)) {
		return d.AskDecision, true
	}
	if a.off != "" {
		return srt.AskDecision{Reason: a.off}, true
	}
	return srt.AskDecision{Reason: reasonNoAnswer}, a.gaveUp.After(arose)
}

// reply is what a person answers.
type reply int

const (
	replyNo reply = iota
	replyOnce
	replyRun
	replyNever
	replyQuit
	replyNone // nobody answered
)

// take turns a reply into a decision and remembers it.
func (a *asker) take(key string, r reply) srt.AskDecision {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r != replyNone {
		a.unanswered = 0
	}
	var d answer
	switch r {
	case replyOnce:
		d.Allow, d.ends = true, time.Now().Add(burst)
	case replyRun:
		d.Allow = true
	case replyNo:
		d.ends = time.Now().Add(burst)
	case replyNever:
		d.Reason = reasonNeverAgain
	case replyQuit:
		d.Reason, a.off = reasonNeverAgain, reasonNeverAgain
	case replyNone:
		d.Reason = reasonNoAnswer
		a.gaveUp = time.Now()
		if a.unanswered++; a.unanswered == maxUnanswered {
			a.off = reasonNoAnswer
			a.m.warn(fmt.Sprintf("--ask: %d questions in a row were not answered; nobody is asked any more, hosts that no list mentions are refused", maxUnanswered))
		}
	}
	if len(a.known) < maxKnown {
		a.known[key] = d
	}
	return d.AskDecision
}

// resetScreen takes back what the command may have set so that the question cannot
// be read, or stands next to one that the command drew: an unfinished sequence or
// text for the terminal, colours, character sets, margins, lines that do not wrap,
// a hidden cursor, text below it.
const resetScreen = "\x18\x1b\\" + "\x1b[0m\x1b(B\x0f" + "\x1b[?69l" + "\x1b7\x1b[?6l\x1b[r\x1b8" + "\x1b[4l\x1b[?7h\x1b[?25h" + "\r\n\x1b[J"

// afterTaken is how long nothing else is asked after a question that was taken
// back: what is being typed then shall not answer another one.
const afterTaken = 700 * time.Millisecond

// talk puts a question on the terminal and reads the answer. An error means that
// there was no way to ask.
func (a *asker) talk(ctx context.Context, terminal io.ReadWriter, q srt.AskRequest) (reply, error) {
	// Writing can take long, too: Ctrl-S holds it.
	if d, ok := terminal.(interface{ SetDeadline(time.Time) error }); ok {
		if err := d.SetDeadline(time.Now().Add(a.timeout)); err != nil {
			return replyNo, fmt.Errorf("asking on the terminal: %w", err)
		}
	}
	if ctx.Err() != nil { // it ends reads by a deadline, too
		return replyNo, context.Cause(ctx)
	}
	if _, err := io.WriteString(terminal, a.question(q)); err != nil {
		return replyNo, fmt.Errorf("asking on the terminal: %w", err)
	}
	for try := 1; ; try++ {
		line, err := readAnswer(terminal)
		switch {
		case ctx.Err() != nil:
			fmt.Fprint(terminal, "\nsrt: the question is off\n")
			if cause := context.Cause(ctx); cause == context.Canceled || !errors.Is(cause, context.Canceled) && !errors.Is(cause, os.ErrProcessDone) {
				time.Sleep(afterTaken) // neither a signal nor the end of the command, which have to go on
			}
			return replyNo, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			allowWriting(terminal)
			fmt.Fprint(terminal, "\nsrt: no answer: refused\n")
			return replyNone, nil
		case err != nil: // Ctrl-D, Ctrl-C, or the terminal is gone
			fmt.Fprint(terminal, "\nsrt: refused\n")
			return replyNo, nil
		}
		if r, ok := parseReply(line); ok {
			return r, nil
		}
		if try == maxTries {
			fmt.Fprint(terminal, "srt: refused\n")
			return replyNo, nil
		}
		fmt.Fprint(terminal, "Please answer y, r, n, v or q: ")
	}
}

// allowWriting makes room for a last word where the time is over.
func allowWriting(terminal io.ReadWriter) {
	if d, ok := terminal.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	}
}

func (a *asker) question(q srt.AskRequest) string {
	var b strings.Builder
	if term := os.Getenv("TERM"); term != "" && term != "dumb" {
		b.WriteString(resetScreen)
	} else {
		b.WriteByte('\n')
	}
	command := violation.Sanitize(q.Command)
	if cut := violation.Truncate(command, maxShownCommand); cut != command {
		command = cut + "..."
	}
	fmt.Fprintf(&b, "srt: a connection to %s, which no list mentions, is wanted by: %s\n", destination(q), command)
	if n := a.waiting.Load(); n > 1 {
		fmt.Fprintf(&b, "     (%d more questions wait)\n", n-1)
	}
	b.WriteString("     y = allow once, r = allow for this run, n = refuse, v = refuse for this run, q = refuse and ask no more\n")
	fmt.Fprintf(&b, "     Allow it (no answer in %s: no)? ", shortTime(a.timeout))
	return b.String()
}

// shortTime writes 1m0s as people do.
func shortTime(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, ok := strings.CutSuffix(text, zero); ok {
			text = rest + zero[:1]
		}
	}
	return text
}

func parseReply(line string) (reply, bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes", "once":
		return replyOnce, true
	case "r", "run":
		return replyRun, true
	case "n", "no", "":
		return replyNo, true
	case "v", "never":
		return replyNever, true
	case "q", "quit":
		return replyQuit, true
	}
	return replyNo, false
}

var errAnswerEnded = errors.New("the answer was broken off")

// readAnswer reads one line. Ctrl-C and Ctrl-\ arrive as bytes and break it off;
// the command gets their signals. What is too long for an answer is none.
func readAnswer(r io.Reader) (string, error) {
	var line []byte
	buf := make([]byte, 256)
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			switch {
			case c == 0x03 || c == 0x1c:
				return "", errAnswerEnded
			case c == '\n':
				return string(line), nil
			case len(line) <= maxAnswer:
				line = append(line, c)
			}
		}
		if err != nil {
			return "", err
		}
	}
}
