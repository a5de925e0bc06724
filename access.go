package srt

import (
	"context"
	"io"
	"log/slog"

	"github.com/srt-sandbox/srt/internal/accesslog"
	"github.com/srt-sandbox/srt/internal/proxy"
)

// Access is one decision of the network filter and what became of it. It holds
// neither URLs nor headers nor credentials.
type Access = proxy.Access

// WithAccess calls fn for each decision about a destination: at once for a
// refusal, and when the connection has ended for the others. fn must be safe for
// concurrent use and return soon; connections end after it only. What external
// proxies (network.httpProxyPort, network.socksProxyPort) decide is not seen: of
// connections to them it is told where they went, and how many bytes they moved.
func WithAccess(fn func(Access)) Option {
	return func(o *options) { o.access = append(o.access, fn) }
}

// WithAccessLog writes what [WithAccess] would be told to w, each decision as one
// line of JSON in one call of Write. Connections do not wait for w: lines that it
// does not take are left out and counted in a line of their own, and
// [WithWarnings] is told once. [Sandbox.Close] writes what is left, for at most
// two seconds; w is then the caller's to close. A file that commands could reach
// should be named with [WithProtectedFiles].
func WithAccessLog(w io.Writer) Option { return func(o *options) { o.accessLog = w } }

// accessSink starts the log, if there is one, and returns who is told about decisions.
func (s *Sandbox) accessSink() func(Access) {
	all := s.options.access
	if s.options.accessLog != nil {
		s.log = accesslog.New(s.options.accessLog, s.options.warn)
		all = append(all[:len(all):len(all)], s.log.Add)
	}
	if s.options.logger.Enabled(context.Background(), slog.LevelDebug) {
		all = append(all[:len(all):len(all)], s.explainAccess)
	}
	if len(all) == 0 {
		return nil
	}
	return func(a Access) {
		for _, fn := range all {
			fn(a)
		}
	}
}
