// Package proxy is the network filter: HTTP and SOCKS5 front ends that accept
// the connections of a sandbox, ask the policy about each destination, resolve
// and dial what is allowed, and copy bytes.
//
// Everything a client or an upstream sends is hostile input: heads, buffers,
// waits and the number of connections are bounded.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Limits and waits.
const (
	firstByteWait = 10 * time.Second
	headWait      = 60 * time.Second
	keepAliveWait = 5 * time.Second
	dialWait      = 30 * time.Second
	maxHead       = 16 << 10
	maxEarly      = 64 << 10
	maxConns      = 4096
	closeWait     = 2 * time.Second
)

// Invocation is the command that a listener belongs to.
type Invocation struct {
	// ID and Command name it in violations.
	ID, Command string
	// AllowDomains are hosts that only this command may reach.
	AllowDomains *hostname.Set
}

// AskRequest is a destination that no list decided about.
type AskRequest struct {
	Host string // canonical
	Port int
	// Spelling is the host as the client wrote it.
	Spelling string
	// Command is the text of the command that wants to connect.
	Command string
}

// AskDecision answers an AskRequest. The zero value denies.
type AskDecision struct {
	Allow  bool
	Reason string
}

// Options configure a Session; the zero value of each field has a default.
type Options struct {
	Ask func(context.Context, AskRequest) (AskDecision, error)
	// Record receives each refusal.
	Record func(violation.Event)
	Logger *slog.Logger
	// Lookup resolves names; by default the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial opens TCP connections; by default directly.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// OwnAddresses lists this machine's interface addresses.
	OwnAddresses func() []netip.Addr
	// Parent is the upstream proxy that everything must go through, or nil.
	Parent *Parent
	// MITM sends some hosts to a proxy on a Unix socket, or nil.
	MITM *MITM
}

// Session is one filter. Its methods are safe for concurrent use.
type Session struct {
	o     Options
	hosts atomic.Pointer[policy.Hosts]

	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	wait   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[closer]struct{}
}

type closer interface{ Close() error }

// New returns a filter that serves nothing yet.
func New(hosts *policy.Hosts, o Options) *Session {
	if o.Record == nil {
		o.Record = func(violation.Event) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	if o.OwnAddresses == nil {
		o.OwnAddresses = interfaceAddresses
	}
	s := &Session{o: o, slots: make(chan struct{}, maxConns), open: map[closer]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.hosts.Store(hosts)
	return s
}

// SetHosts replaces the lists; connections made from now on are held to them.
func (s *Session) SetHosts(h *policy.Hosts) { s.hosts.Store(h) }

// Serve accepts connections until the listener or the session is closed. The
// listener belongs to one command, so its connections need no credentials.
func (s *Session) Serve(ln net.Listener, who Invocation) error {
	if !s.track(ln) {
		ln.Close()
		return net.ErrClosed
	}
	defer s.forget(ln)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if retryAccept(err) {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			return err
		}
		s.accept(conn, who)
	}
}

// retryAccept recognises errors that pass, such as a full descriptor table.
func retryAccept(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout() || isResourceShortage(err)
}

// accept hands a connection to its own goroutine, or closes it when too many
// are open.
func (s *Session) accept(conn net.Conn, who Invocation) {
	select {
	case s.slots <- struct{}{}:
	default:
		conn.Close()
		return
	}
	if !s.track(conn) {
		conn.Close()
		<-s.slots
		return
	}
	s.wait.Go(func() {
		defer func() {
			s.forget(conn)
			conn.Close()
			<-s.slots
		}()
		newClient(s, conn, who).serve()
	})
}

// track registers something to close with the session.
func (s *Session) track(c closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *Session) forget(c closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Close ends every listener and connection and waits briefly for their goroutines.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() { s.wait.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(closeWait):
		return errors.New("closing the network filter: some connections did not end in time")
	}
}

func interfaceAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the fixed classes still hold
	}
	var all []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}
