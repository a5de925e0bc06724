// Package proxy is the network filter: HTTP and SOCKS5 front ends that accept
// the connections of a sandbox, ask the policy about each destination, resolve
// and dial what is allowed, and copy bytes.
//
// Everything a client or an upstream sends is hostile input: heads, buffers,
// waits and the number of connections are bounded.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/policy"
	"github.com/srt-sandbox/srt/internal/tcp"
	"github.com/srt-sandbox/srt/internal/violation"
)

// Invocation is the command that a listener belongs to.
type Invocation struct {
	// ID and Command name it in violations. With a Token and without an ID the
	// user name that a client presents names the command, see Options.Identify.
	ID, Command string
	// AllowDomains are hosts that only this command may reach.
	AllowDomains *hostname.Set
	// Token is the password that clients must present. Empty means that only the
	// command can reach the listener: no credentials are needed, and those that a
	// client sends are ignored.
	Token string
	// names are those that the command's programs looked up, see Direct.Invocation.
	names *nameTable
}

// Options configure a Session; the zero value of each field has a default.
type Options struct {
	// Ask decides about destinations that no list decides about; by default they
	// are refused. Its context ends when the client leaves.
	Ask func(context.Context, AskRequest) (AskDecision, error)
	// Record receives each refusal.
	Record func(violation.Event)
	// Access receives each decision about a destination, when it is refused or
	// its connection has ended.
	Access func(Access)
	Logger *slog.Logger
	// Warn receives what the person who runs the filter has to put right.
	Warn func(string)
	// Lookup resolves names; by default the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial opens TCP connections; by default directly.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// OwnAddresses lists this machine's interface addresses. While it fails, names
	// lead nowhere.
	OwnAddresses func() ([]netip.Addr, error)
	// Identify finds the command that a user name stands for, on listeners that
	// do not belong to one command. Names that it does not know are recorded as
	// the client wrote them.
	Identify func(key string) (Invocation, bool)
	// Parent is the upstream proxy that everything must go through, or nil.
	Parent *Parent
	// MITM sends some hosts to a proxy on a Unix socket, or nil.
	MITM *MITM
	// Roots verify TLS servers; nil for the system's.
	Roots *x509.CertPool
	// RefuseOpaqueTunnels refuses every tunnel whose content nobody inspects.
	RefuseOpaqueTunnels bool
	// RequireHostMatch refuses plain requests whose Host header names another
	// server than the request's target.
	RequireHostMatch bool
	// StripResponseHeaders are fields that no response brings to a command, in
	// any case and with "-", "_" and "." taken as equal.
	StripResponseHeaders []string
	// MaxConns bounds the connections that are open at once; 8192 by default.
	MaxConns int
}

const defaultMaxConns = 8192

// Session is one filter. Its methods are safe for concurrent use.
type Session struct {
	o        Options
	hosts    atomic.Pointer[lists]
	stripped map[string]bool // folded names
	waits    waits
	slots    chan struct{}
	workers  *workers
	// questions holds one element for each question that waits.
	questions chan struct{}

	readers, writers, buffers sync.Pool
	pipes                     pipePool

	// searchDomains are those that resolvers of this machine append to names.
	searchDomains func() []string

	warned  sync.Map       // settings of upstream proxies whose failure was said
	serving sync.WaitGroup // calls of Serve and ServeForward

	mu       sync.Mutex
	closed   bool
	services map[*service]struct{}
}

// New returns a filter that serves nothing yet.
func New(hosts *policy.Hosts, o Options) *Session {
	if o.Record == nil {
		o.Record = func(violation.Event) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
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
		o.Dial = tcp.Dial
	}
	if o.OwnAddresses == nil {
		o.OwnAddresses = interfaceAddresses
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	s := &Session{o: o, stripped: map[string]bool{}, waits: defaultWaits(), slots: make(chan struct{}, o.MaxConns), workers: newWorkers(), questions: make(chan struct{}, maxQuestions), searchDomains: sync.OnceValue(readSearchDomains), services: map[*service]struct{}{}}
	for _, name := range o.StripResponseHeaders {
		s.stripped[foldName(name)] = true
	}
	s.hosts.Store(&lists{hosts, o.MITM})
	return s
}

// lists are what a destination is judged and routed by. They are replaced as a
// whole: a host that the new ones allow because it goes to the MITM proxy must
// not be dialed by the old ones.
type lists struct {
	*policy.Hosts
	mitm *MITM
}

// Update replaces the host lists and the hosts that go to a proxy on a Unix
// socket, both at once. Connections and requests made from now on are held to
// them; tunnels that stand are not cut.
func (s *Session) Update(h *policy.Hosts, m *MITM) { s.hosts.Store(&lists{h, m}) }

// SetHosts replaces the host lists alone.
func (s *Session) SetHosts(h *policy.Hosts) { s.Update(h, s.hosts.Load().mitm) }

// Serve accepts connections until the listener or the session is closed, ends
// those that are open then, and returns why it ended.
func (s *Session) Serve(ln net.Listener, who Invocation) error {
	return s.serve(ln, func(v *service, conn net.Conn) func() { return newClient(v, conn, who).serve() })
}

// Close ends every listener and connection and waits briefly until their
// goroutines are gone.
func (s *Session) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	for v := range s.services {
		v.end()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serving.Wait()
		if !already {
			s.workers.end()
		}
	}()
	defer s.pipes.close()
	select {
	case <-done:
		return nil
	case <-time.After(s.waits.close):
		return errors.New("closing the network filter: some connections did not end in time")
	}
}

func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all, nil
}
