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
	http, https *url.URL
	bypass      []bypassEntry
	bypassAll   bool
}

// NewParent reads the configured proxies, each falling back on its own to srt's
// environment. It returns nil when there is none. warn receives values of the
// environment that cannot be used.
func NewParent(cfg *config.ParentProxy, lookup func(string) (string, bool), warn func(string)) (*Parent, error) {
	if cfg == nil {
		cfg = &config.ParentProxy{}
	}
	from := func(configured *string, names ...string) (string, string) {
		if configured != nil {
			return *configured, ""
		}
		for _, n := range names {
			if v, ok := lookup(n); ok {
				return v, n
			}
		}
		return "", ""
	}
	p := &Parent{}
	httpText, httpName := from(cfg.HTTP, "HTTP_PROXY", "http_proxy")
	httpsText, httpsName := from(cfg.HTTPS, "HTTPS_PROXY", "https_proxy")
	if httpsText == "" && cfg.HTTPS == nil && httpsName == "" {
		httpsText, httpsName = httpText, httpName
	}
	var err error
	if p.http, err = usable(httpText, httpName, warn); err != nil {
		return nil, fmt.Errorf("network.parentProxy.http: %w", err)
	}
	if p.https, err = usable(httpsText, httpsName, warn); err != nil {
		return nil, fmt.Errorf("network.parentProxy.https: %w", err)
	}
	if p.http == nil && p.https == nil {
		return nil, nil
	}
	no, _ := from(cfg.NoProxy, "NO_PROXY", "no_proxy")
	p.parseBypass(no)
	return p, nil
}

// usable parses a proxy URL. A configured value that cannot be used is an
// error; one from the environment is said and left out.
func usable(text, variable string, warn func(string)) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err == nil && u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return u, nil
	}
	if variable == "" {
		return nil, errors.New("not an http or https proxy URL")
	}
	warn(variable + " is not an http or https proxy URL; srt connects directly")
	return nil, nil
}

// bypassEntry is one element of NO_PROXY.
type bypassEntry struct {
	prefix netip.Prefix
	suffix string
}

func (p *Parent) parseBypass(list string) {
	for e := range strings.SplitSeq(list, ",") {
		e = strings.ToLower(strings.TrimSpace(e))
		switch {
		case e == "":
		case e == "*":
			p.bypassAll = true
		case strings.Contains(e, "/"):
			if prefix, err := hostname.ParseRange(e); err == nil {
				p.bypass = append(p.bypass, bypassEntry{prefix: prefix})
			}
		default:
			p.bypass = append(p.bypass, parseBypassHost(e))
		}
	}
}

func parseBypassHost(e string) bypassEntry {
	host := e
	if inner, _, ok := strings.Cut(strings.TrimPrefix(e, "["), "]"); ok && strings.HasPrefix(e, "[") {
		host = inner
	} else if strings.Count(e, ":") == 1 {
		host, _, _ = strings.Cut(e, ":")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.WithZone("").Unmap()
		return bypassEntry{prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	host = strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
	return bypassEntry{suffix: host}
}

// bypasses reports whether a canonical host is reached directly.
func (p *Parent) bypasses(host string) bool {
	a, err := netip.ParseAddr(host)
	isAddr := err == nil
	if p.bypassAll || host == "localhost" || isAddr && a.IsLoopback() {
		return true
	}
	for _, e := range p.bypass {
		switch {
		case isAddr && e.suffix == "" && e.prefix.Contains(a):
			return true
		case !isAddr && e.suffix != "" && (host == e.suffix || strings.HasSuffix(host, "."+e.suffix)):
			return true
		}
	}
	return false
}

// tunnels reports whether connections to the host go through the proxy for https.
func (p *Parent) tunnels(host string) bool { return p != nil && p.https != nil && !p.bypasses(host) }

// forwards reports whether plain requests to the host go through the proxy for http.
func (p *Parent) forwards(host string) bool { return p != nil && p.http != nil && !p.bypasses(host) }

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

// dial opens a tunnel through the proxy. It resolves the name itself.
func (p *Parent) dial(ctx context.Context, t target, dial dialFunc) (net.Conn, error) {
	conn, err := connectProxy(ctx, p.https, dial)
	if err != nil {
		return nil, err
	}
	return handshake(ctx, conn, t, proxyAuthorization(p.https))
}

// connectHTTP connects to the proxy for plain requests.
func (p *Parent) connectHTTP(ctx context.Context, dial dialFunc) (net.Conn, *field, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	conn, err := connectProxy(ctx, p.http, dial)
	return conn, proxyAuthorization(p.http), err
}

func connectProxy(ctx context.Context, u *url.URL, dial dialFunc) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := dial(ctx, net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to the parent proxy %s: %w", u.Host, err)
	}
	return secure, nil
}

func proxyAuthorization(u *url.URL) *field {
	if u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	return &field{"Proxy-Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))}
}

// handshake asks an upstream proxy for a tunnel. Host and port are written from
// canonical parts, so no caller can add a line.
func handshake(ctx context.Context, conn net.Conn, t target, auth *field) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fields := []field{{"Host", t.String()}}
	if auth != nil {
		fields = append(fields, *auth)
	}
	w := bufio.NewWriter(conn)
	err := writeHead(w, "CONNECT "+t.String()+" HTTP/1.1", fields)
	if err == nil {
		err = w.Flush()
	}
	r := bufio.NewReaderSize(conn, maxHead)
	var h *head
	if err == nil {
		h, err = readHead(r)
	}
	if err == nil {
		if code := statusCode(h); code < 200 || code > 299 {
			err = errors.New("the upstream proxy answered " + strconv.Quote(strings.Join(h.start[:], " ")))
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("opening a tunnel to %s: %w", t, err)
	}
	if r.Buffered() > 0 {
		return &prefixed{Conn: conn, r: r}, nil
	}
	return conn, nil
}

// prefixed is a connection whose first bytes were read together with a head.
type prefixed struct {
	net.Conn
	r *bufio.Reader
}

func (p *prefixed) Read(b []byte) (int, error) { return p.r.Read(b) }

// CloseWrite passes the end of one direction on.
func (p *prefixed) CloseWrite() error {
	closeWrite(p.Conn)
	return nil
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

func (m *MITM) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "unix", m.path)
}

func (m *MITM) dial(ctx context.Context, t target) (net.Conn, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	return handshake(ctx, conn, t, nil)
}
