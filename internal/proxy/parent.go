package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

// Parent is the proxy that srt itself has to use. A nil Parent handles nothing.
type Parent struct {
	http, https *upstreamProxy
	bypass      bypassList
}

// upstreamProxy is one HTTP proxy.
type upstreamProxy struct {
	tls           bool
	host, address string
	auth          *field // the Proxy-Authorization line, or nil
}

// NewParent reads the configured proxies, each falling back on its own to the
// environment of srt itself, where an empty value hides the ones after it. It
// returns nil when there is none. warn receives values of the environment that
// cannot be used; configured ones that cannot are an error.
func NewParent(cfg *config.ParentProxy, lookup func(string) (string, bool), warn func(string)) (*Parent, error) {
	if cfg == nil {
		cfg = &config.ParentProxy{}
	}
	fromHTTP := choose(cfg.HTTP, "network.parentProxy.http", lookup, "HTTP_PROXY", "http_proxy")
	fromHTTPS := choose(cfg.HTTPS, "network.parentProxy.https", lookup, "HTTPS_PROXY", "https_proxy")
	p := &Parent{}
	var err error
	if p.http, err = fromHTTP.proxy(warn); err != nil {
		return nil, err
	}
	p.https = p.http
	if fromHTTPS.set {
		if p.https, err = fromHTTPS.proxy(warn); err != nil {
			return nil, err
		}
	}
	if p.http == nil && p.https == nil {
		return nil, nil
	}
	p.bypass = parseBypass(choose(cfg.NoProxy, "network.parentProxy.noProxy", lookup, "NO_PROXY", "no_proxy").value)
	return p, nil
}

// choice is a value and where it comes from.
type choice struct {
	value, source   string
	set, configured bool
}

// choose takes the first of a setting and some variables that is set.
func choose(configured *string, setting string, lookup func(string) (string, bool), variables ...string) choice {
	if configured != nil {
		return choice{*configured, setting, true, true}
	}
	for _, name := range variables {
		if v, ok := lookup(name); ok {
			return choice{v, name, true, false}
		}
	}
	return choice{}
}

// proxy parses the value. Messages never show it: it may hold a password.
func (c choice) proxy(warn func(string)) (*upstreamProxy, error) {
	if c.value == "" {
		return nil, nil
	}
	p, err := parseUpstream(c.value)
	switch {
	case err == nil:
		return p, nil
	case c.configured:
		return nil, fmt.Errorf("%s: %w", c.source, err)
	}
	warn(c.source + ": " + err.Error() + "; srt connects directly")
	return nil, nil
}

// parseUpstream reads a proxy URL, or host:port for an http one. Path, query
// and fragment mean nothing.
func parseUpstream(text string) (*upstreamProxy, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "http", text
	}
	port := map[string]int{"http": 80, "https": 443}[strings.ToLower(scheme)]
	if port == 0 {
		return nil, errors.New("only http and https proxies can be used")
	}
	userinfo, hostport := "", rest
	if end := strings.IndexAny(hostport, "/?#"); end >= 0 {
		hostport = hostport[:end]
	}
	if at := strings.LastIndexByte(hostport, '@'); at >= 0 {
		userinfo, hostport = hostport[:at], hostport[at+1:]
	}
	host, port, ok := splitAuthority(strings.TrimSuffix(hostport, ":"), port)
	canonical, err := hostname.Canonical(host)
	if !ok || err != nil {
		return nil, errors.New("it is not the URL of a proxy")
	}
	p := &upstreamProxy{tls: strings.EqualFold(scheme, "https"), host: canonical, address: net.JoinHostPort(canonical, strconv.Itoa(port))}
	if userinfo != "" {
		user, password, _ := strings.Cut(userinfo, ":")
		p.auth = &field{"Proxy-Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(unescape(user)+":"+unescape(password)))}
	}
	return p, nil
}

// unescape takes a text with malformed escapes as it is.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// tunnels reports whether connections to the host go through the proxy for https.
func (p *Parent) tunnels(host string) bool {
	return p != nil && p.https != nil && !p.bypass.matches(host)
}

// forwards reports whether plain requests to the host go through the proxy for http.
func (p *Parent) forwards(host string) bool {
	return p != nil && p.http != nil && !p.bypass.matches(host)
}

// dial opens a tunnel through the proxy, which resolves the name itself.
func (p *Parent) dial(ctx context.Context, t target, s *Session) (*leg, error) {
	l, err := p.https.connect(ctx, s)
	if err != nil {
		return nil, err
	}
	return l.askForTunnel(ctx, t, p.https.auth)
}

// connectHTTP connects to the proxy for plain requests.
func (p *Parent) connectHTTP(ctx context.Context, s *Session) (*leg, *field, error) {
	l, err := p.http.connect(ctx, s)
	return l, p.http.auth, err
}

func (u *upstreamProxy) connect(ctx context.Context, s *Session) (*leg, error) {
	conn, err := s.o.Dial(ctx, u.address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the parent proxy: %w", err)
	}
	l := newLeg(conn)
	if !u.tls {
		return l, nil
	}
	return l.startTLS(ctx, &tls.Config{ServerName: u.host, RootCAs: s.o.Roots})
}

// askForTunnel asks an upstream proxy for a tunnel to the target. The
// connection is closed when it does not give one.
func (l *leg) askForTunnel(ctx context.Context, t target, auth *field) (*leg, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	err := l.exchangeConnect(t, auth)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline of the connection has passed
	}
	if err != nil {
		l.raw.Close()
		return nil, fmt.Errorf("opening a tunnel to %s through an upstream proxy: %w", t, err)
	}
	return l, nil
}

func (l *leg) exchangeConnect(t target, auth *field) error {
	// Whatever the caller is, no line can be added to the request.
	if c, err := hostname.Canonical(t.host); err != nil || c != t.host || t.port < 1 || t.port > 65535 {
		return errors.New("malformed target")
	}
	fields := []field{{"Host", t.String()}}
	if auth != nil {
		fields = append(fields, *auth)
	}
	w := bufio.NewWriter(l)
	if err := writeHead(w, "CONNECT "+t.String()+" HTTP/1.1", fields); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r := bufio.NewReaderSize(l, maxHead)
	h, err := readHead(r)
	if err != nil {
		return err
	}
	if code := statusCode(h); code < 200 || code > 299 {
		return errors.New("it answered " + strconv.Quote(strings.Join(h.start[:], " ")))
	}
	l.ahead, err = r.Peek(r.Buffered())
	return err
}

// MITM routes some hosts to a proxy on a Unix socket. A nil MITM handles nothing.
type MITM struct {
	path  string
	hosts *hostname.Set
}

// NewMITM reads the configuration; nil without one.
func NewMITM(cfg *config.MITMProxy) (*MITM, error) {
	if cfg == nil {
		return nil, nil
	}
	var ps []hostname.Pattern
	for i, d := range cfg.Domains {
		p, err := hostname.ParseHostOnly(d)
		if err != nil {
			return nil, fmt.Errorf("network.mitmProxy.domains[%d]: %w", i, err)
		}
		ps = append(ps, p)
	}
	return &MITM{path: cfg.SocketPath, hosts: hostname.NewSet(ps)}, nil
}

func (m *MITM) handles(host string) bool {
	if m == nil {
		return false
	}
	_, ok := m.hosts.Match(host, 0)
	return ok
}

func (m *MITM) connect(ctx context.Context) (*leg, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", m.path)
	if err != nil {
		return nil, err
	}
	return newLeg(conn), nil
}

func (m *MITM) dial(ctx context.Context, t target) (*leg, error) {
	l, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	return l.askForTunnel(ctx, t, nil)
}
