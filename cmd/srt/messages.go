package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Rules for what srt says: everything goes to stderr, because stdout belongs to
// the command; a run without incident says nothing; a refusal is one line that
// says what, why and which setting would allow it; text that may come from
// inside a sandbox is sanitised where it is stored.

// messages prints what srt has to say to its user.
type messages struct {
	mu    sync.Mutex
	w     io.Writer
	debug bool
	said  map[string]bool
}

func newMessages(w io.Writer, debug bool) *messages {
	return &messages{w: w, debug: debug || os.Getenv("SRT_DEBUG") != "", said: map[string]bool{}}
}

func (m *messages) plain(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintln(m.w, text)
}

// fail prints why nothing ran. Names in it may be anybody's choice.
func (m *messages) fail(err error) {
	var settings *settingsError
	if errors.As(err, &settings) {
		m.plain("Error: " + violation.Escape(settings.err.Error()) + "\n" + settings.lost())
		return
	}
	m.plain("Error: " + violation.Escape(oneLine(err)))
}

// oneLine is the text of an error; [errors.Join] puts each into a line of its own.
func oneLine(err error) string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err.Error()
	}
	var texts []string
	for _, e := range joined.Unwrap() {
		texts = append(texts, e.Error())
	}
	if strings.Join(texts, "\n") != err.Error() {
		return err.Error() // of fmt.Errorf
	}
	return strings.Join(texts, "; ")
}

// warn prints a warning, each text once.
func (m *messages) warn(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.said[text] {
		m.said[text] = true
		fmt.Fprintln(m.w, "srt: warning: "+text)
	}
}

// published says which ports were chosen for the user. Those that they chose
// themselves they know.
func (m *messages) published(ports []srt.Published) {
	for _, p := range ports {
		if p.Port == 0 {
			m.plain(fmt.Sprintf("srt: publishing %s (port %d inside)", p.Addr, p.Inside))
		}
	}
}

func (m *messages) debugf(format string, args ...any) {
	if m.debug {
		m.plain("[SandboxDebug] " + fmt.Sprintf(format, args...))
	}
}

func (m *messages) unknownKey(path string, k config.UnknownKey) {
	text := fmt.Sprintf("%s: unknown key %q has no effect", path, k.Path)
	if k.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", k.Nearest)
	}
	m.warn(text)
}

// logger returns a logger for the library; it discards everything unless
// debugging is on.
func (m *messages) logger() *slog.Logger {
	if !m.debug {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(debugHandler{m})
}

// debugHandler writes records in the form that tools for the TypeScript srt know.
type debugHandler struct{ m *messages }

func (h debugHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h debugHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h debugHandler) WithGroup(string) slog.Handler            { return h }

func (h debugHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if v := a.Value.String(); v != "" {
			text += fmt.Sprintf(" %s=%q", a.Key, v)
		}
		return true
	})
	h.m.plain("[SandboxDebug] " + text)
	return nil
}
