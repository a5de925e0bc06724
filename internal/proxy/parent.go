package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// upstreamProxy is one HTTP or SOCKS5 proxy.
type upstreamProxy struct {
	kind          upstreamKind
	source        string // the setting or variable that names it
	host, address string
	auth          *field // the Proxy-Authorization line, or nil
	user          *userinfo
}

// upstreamKind is the scheme of a proxy's URL.
type upstreamKind string

// The kinds. As with curl, names go to a socks5 proxy as addresses that are
// resolved, and checked, here; a socks5h proxy resolves them itself.
const (
	upstreamHTTP    upstreamKind = "http"
	upstreamHTTPS   upstreamKind = "https"
	upstreamSOCKS5  upstreamKind = "socks5"
	upstreamSOCKS5H upstreamKind = "socks5h"
)

var upstreamPorts = map[upstreamKind]int{upstreamHTTP: 80, upstreamHTTPS: 443, upstreamSOCKS5: 1080, upstreamSOCKS5H: 1080}

// socks reports whether the proxy knows tunnels only.
func (u *upstreamProxy) socks() bool { return u.kind == upstreamSOCKS5 || u.kind == upstreamSOCKS5H }

// userinfo are the credentials of a URL, decoded.
type userinfo struct{ name, password string }

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
		p.source = c.source
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
	kind := upstreamKind(strings.ToLower(scheme))
	port := upstreamPorts[kind]
	if port == 0 {
		return nil, errors.New("only http, https, socks5 and socks5h proxies can be used")
	}
	credentials, hostport := "", rest
	if end := strings.IndexAny(hostport, "/?#"); end >= 0 {
		hostport = hostport[:end]
	}
	if at := strings.LastIndexByte(hostport, '@'); at >= 0 {
		credentials, hostport = hostport[:at], hostport[at+1:]
	}
	host, port, ok := splitAuthority(strings.TrimSuffix(hostport, ":"), port)
	canonical, err := hostname.Canonical(host)
	if !ok || err != nil {
		return nil, errors.New("it is not the URL of a proxy")
	}
	p := &upstreamProxy{kind: kind, host: canonical, address: net.JoinHostPort(canonical, strconv.Itoa(port))}
	if credentials != "" {
		name, password, _ := strings.Cut(credentials, ":")
		if err := p.setUser(userinfo{unescape(name), unescape(password)}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (u *upstreamProxy) setUser(i userinfo) error {
	const most = 255 // RFC 1929 section 2
	switch {
	case !u.socks():
		u.auth = &field{"Proxy-Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(i.name+":"+i.password))}
	case i.name == "" || len(i.name) > most || len(i.password) > most:
		return errors.New("a SOCKS proxy takes a user name of 1 to 255 bytes and a password of up to 255")
	}
	u.user = &i
	return nil
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

// Resolves reports whether names are looked up by the proxy, where no address of
// theirs can be checked.
func (p *Parent) Resolves() bool {
	resolves := func(u *upstreamProxy) bool { return u != nil && u.kind != upstreamSOCKS5 }
	return p != nil && !p.bypass.everything && (resolves(p.http) || resolves(p.https))
}

// forwards reports whether plain requests to the host go through the proxy for http.
func (p *Parent) forwards(host string) bool {
	return p != nil && p.http != nil && !p.bypass.matches(host)
}

// tunnel opens a tunnel through the proxy.
func (u *upstreamProxy) tunnel(ctx context.Context, t target, q wish, s *Session) (*leg, error) {
	if u.kind == upstreamSOCKS5 {
		return s.dialChecked(ctx, t, q, func(ctx context.Context, a netip.Addr, port int) (*leg, error) {
			return u.openTunnel(ctx, target{a.String(), port}, s)
		})
	}
	return u.openTunnel(ctx, t, s)
}

// openTunnel lets the proxy resolve what it is given.
func (u *upstreamProxy) openTunnel(ctx context.Context, t target, s *Session) (*leg, error) {
	l, err := u.connect(ctx, s)
	if err != nil {
		return nil, err
	}
	ask := func() error { return l.exchangeConnect(t, u.auth) }
	if u.socks() {
		ask = func() error { return l.exchangeSOCKS(t, u.user) }
	}
	if err := l.negotiate(ctx, ask); err != nil {
		return nil, u.failed("opening a tunnel to "+t.String(), err)
	}
	return l, nil
}

// connect opens a connection to the proxy itself.
func (u *upstreamProxy) connect(ctx context.Context, s *Session) (*leg, error) {
	conn, err := s.o.Dial(ctx, u.address)
	if err != nil {
		return nil, u.failed("connecting", err)
	}
	l := newLeg(conn)
	if u.kind != upstreamHTTPS {
		return l, nil
	}
	if l, err = l.startTLS(ctx, &tls.Config{ServerName: u.host, RootCAs: s.o.Roots}); err != nil {
		return nil, u.failed("connecting", err)
	}
	return l, nil
}

func (u *upstreamProxy) failed(doing string, err error) error {
	return &hopError{hop: "parent proxy " + u.address, source: u.source, doing: doing, err: err}
}

// hopError is the failure of a proxy that srt has to go through. It hides the
// error that it is about: a proxy that refuses connections says nothing about
// the destination.
type hopError struct {
	hop, source, doing string
	err                error
}

func (e *hopError) Error() string {
	return fmt.Sprintf("%s through the %s (%s): %v", e.doing, e.hop, e.source, e.err)
}

// negotiate talks to an upstream proxy for no longer than the context lasts. The
// connection is closed when that fails.
func (l *leg) negotiate(ctx context.Context, talk func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	err := talk()
	if !stop() {
		err = ctx.Err() // the deadline of the connection has passed, whatever talk says
	}
	if err != nil {
		l.raw.Close()
	}
	return err
}

// checkCanonical is the last look at a target before it is written to an
// upstream proxy: whatever the caller is, no line can be added to the request.
func checkCanonical(t target) error {
	if c, err := hostname.Canonical(t.host); err != nil || c != t.host || t.port < 1 || t.port > 65535 {
		return errors.New("malformed target")
	}
	return nil
}

// exchangeConnect asks an HTTP proxy for a tunnel.
func (l *leg) exchangeConnect(t target, auth *field) error {
	if err := checkCanonical(t); err != nil {
		return err
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
		return noResponse(h, nil)
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
		return nil, m.failed("connecting", err)
	}
	return newLeg(conn), nil
}

func (m *MITM) failed(doing string, err error) error {
	return &hopError{hop: "proxy at " + m.path, source: "network.mitmProxy", doing: doing, err: err}
}

func (m *MITM) dial(ctx context.Context, t target) (*leg, error) {
	l, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.negotiate(ctx, func() error { return l.exchangeConnect(t, nil) }); err != nil {
		return nil, m.failed("opening a tunnel to "+t.String(), err)
	}
	return l, nil
}
