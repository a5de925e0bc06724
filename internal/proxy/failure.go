package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"

	"github.com/srt-sandbox/srt/internal/violation"
)

// badGateway answers for what the policy allows and the network does not give.
// The second line tells the classes of failures apart; addresses and what an
// upstream proxy said are not the command's business. A nil error adds nothing.
func badGateway(err error) answer {
	a := answer{status: "502 Bad Gateway", body: "Bad Gateway\n"}
	if text := explainFailure(err); text != "" {
		a.body += text + "\n"
	}
	return a
}

func explainFailure(err error) string {
	var hop *hopError
	var unknown *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &hop):
		return "the upstream proxy of the sandbox (" + hop.source + ") did not open a connection"
	case errors.As(err, &unknown):
		return "the host's name could not be resolved"
	case errors.As(err, &certificate):
		return "the server's certificate could not be verified"
	case isRefused(err):
		return "the server refused the connection"
	case isUnreachable(err):
		return "the server's network is unreachable"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the server did not answer in time"
	}
	return "no connection to the server could be made"
}

// noteFailure logs why a destination was not reached. A proxy that srt has to
// use and that fails concerns whoever set it, once.
func (s *Session) noteFailure(t target, err error) {
	s.o.Logger.Debug("connecting", "target", t.String(), "error", err)
	var hop *hopError
	if !errors.As(err, &hop) || errors.Is(hop.err, context.Canceled) {
		return
	}
	s.warnOnce(hop.source, hop.Error()+`; commands get "502 Bad Gateway" (check that the proxy runs, and its address and credentials)`)
}

// warnOnce says something about a setting once. What others sent may be part of
// the text, such as a certificate that does not fit.
func (s *Session) warnOnce(setting, text string) {
	if _, said := s.warned.LoadOrStore(setting, true); !said {
		s.o.Warn(violation.Sanitize(text))
	}
}
