package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/srt-sandbox/srt/internal/hostname"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// lookUp asks for one name and returns the answer's code and addresses.
func lookUp(t testing.TB, d *Direct, name string, kind dnsmessage.Type) (dnsmessage.RCode, []netip.Addr) {
	t.Helper()
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 77, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	raw, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(d.answerQuery(raw)); err != nil {
		t.Fatalf("answer about %s: %v", name, err)
	}
	if m.ID != 77 || !m.Response || len(m.Questions) != 1 || m.Questions[0].Name.String() != name {
		t.Errorf("the answer about %s is %+v", name, m)
	}
	var all []netip.Addr
	for _, a := range m.Answers {
		if a, ok := a.Body.(*dnsmessage.AResource); ok {
			all = append(all, netip.AddrFrom4(a.A))
		}
	}
	return m.RCode, all
}

// Names that the policy could allow have an address of their own, the same every
// time; nothing about any other name leaves.
func TestNames(t *testing.T) {
	r := newRig(t, setup{allow: []string{"a.example", "*.b.example:443", "127.0.0.1"}, deny: []string{"no.b.example", "part.b.example:80"}})
	own, err := hostname.ParseAllow("own.example:22")
	if err != nil {
		t.Fatal(err)
	}
	d := r.s.NewDirect(Invocation{ID: "id", Command: "cmd", AllowDomains: hostname.NewSet([]hostname.Pattern{own})})
	seen := map[netip.Addr]string{}
	for _, name := range []string{"a.example.", "x.b.example.", "y.b.example.", "part.b.example.", "own.example."} {
		code, addrs := lookUp(t, d, name, dnsmessage.TypeA)
		if code != 0 || len(addrs) != 1 || !netip.MustParsePrefix("198.18.0.0/15").Contains(addrs[0]) {
			t.Fatalf("%s: %v %v", name, code, addrs)
		}
		if other := seen[addrs[0]]; other != "" {
			t.Errorf("%s and %s share an address", name, other)
		}
		seen[addrs[0]] = name
		if _, again := lookUp(t, d, strings.ToUpper(name), dnsmessage.TypeA); again[0] != addrs[0] {
			t.Errorf("%s has two addresses", name)
		}
		if code, addrs := lookUp(t, d, name, dnsmessage.TypeAAAA); code != 0 || len(addrs) != 0 {
			t.Errorf("%s has IPv6 addresses: %v %v", name, code, addrs)
		}
		if code, addrs := lookUp(t, d, name, dnsmessage.TypeTXT); code != 0 || len(addrs) != 0 {
			t.Errorf("%s has text: %v %v", name, code, addrs)
		}
	}
	for range 2 {
		for _, name := range []string{"evil.example.", "secret-data.evil.example.", "b.example.", "no.b.example.", "."} {
			if code, addrs := lookUp(t, d, name, dnsmessage.TypeA); code != dnsmessage.RCodeNameError || len(addrs) != 0 {
				t.Errorf("%s: %v %v", name, code, addrs)
			}
		}
	}
	if len(r.lookups) != 0 {
		t.Errorf("queries of the sandbox were passed on: %v", r.lookups)
	}
	if len(r.events) != 5 || !strings.Contains(r.events[0].Line, "deny dns-lookup evil.example") {
		t.Errorf("recorded: %v", r.lines())
	}
}

// Lookups that go with those of an allowed name are refused without a word.
func TestLookupsThatAreNoNews(t *testing.T) {
	r := newRig(t, setup{allow: []string{"a.example", "*.b.example"}})
	r.s.searchDomains = func() []string {
		return parseSearchDomains("domain old.example\nnameserver 192.0.2.53\nsearch Corp.example. svc.cluster.local\noptions ndots:5\n")
	}
	d := r.s.NewDirect(Invocation{})
	for name, told := range map[string]bool{
		"2.0.18.198.in-addr.arpa.": false, "1.0.0.0.ip6.arpa.": false, "in-addr.arpa.evil.example.": true,
		"_http._tcp.a.example.": false, "_http._tcp.other.example.": true, "_.": true, "_x.": true, "x._tcp.a.example.": true,
		"a.example.corp.example.": false, "x.b.example.svc.cluster.local.": false, "a.example.old.example.": true,
		"other.example.corp.example.": true, "a.example.evil.example.": true, "corp.example.": true, "acorp.example.": true,
	} {
		r.events = nil
		if code, addrs := lookUp(t, d, name, dnsmessage.TypeA); code != dnsmessage.RCodeNameError || len(addrs) != 0 {
			t.Errorf("%s: %v %v", name, code, addrs)
		}
		if (len(r.events) > 0) != told {
			t.Errorf("%s: recorded %v", name, r.lines())
		}
	}
}

// Over TCP a client announces how much it will send: it gets no more memory than
// a query needs.
func TestNamesOverTCP(t *testing.T) {
	r := newRig(t, setup{allow: []string{"a.example"}})
	d := r.s.NewDirect(Invocation{})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = d.ServeNamesOver(ln) }()
	t.Cleanup(func() { ln.Close(); <-done })
	ask := func(query []byte) (reply []byte) {
		conn, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return nil
		}
		reply = make([]byte, binary.BigEndian.Uint16(size[:]))
		_, _ = io.ReadFull(conn, reply)
		return reply
	}
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	raw, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(ask(raw)); err != nil || len(m.Answers) != 1 {
		t.Errorf("the answer is %+v, %v", m, err)
	}
	if reply := ask(append(raw, make([]byte, maxQuery)...)); reply != nil {
		t.Errorf("an oversized query is answered: %x", reply)
	}
}

func TestNameTableIsBounded(t *testing.T) {
	n := newNameTable()
	for i := range maxNames {
		if a, ok := n.address(fmt.Sprint(i)); !ok || !netip.MustParsePrefix("198.18.0.0/15").Contains(a) {
			t.Fatalf("name %d: %v %v", i, a, ok)
		}
	}
	if _, ok := n.address("one more"); ok {
		t.Error("the table grows without end")
	}
	if _, ok := n.address("17"); !ok {
		t.Error("a full table forgets")
	}
}

func FuzzAnswerQuery(f *testing.F) {
	d := New(hostLists(f, setup{allow: []string{"a.example"}}), Options{}).NewDirect(Invocation{})
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	raw, err := q.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := d.answerQuery(query)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response || m.ID != binary.BigEndian.Uint16(query) {
			t.Errorf("the answer to %x is %x: %v", query, reply, err)
		}
	})
}

// directRig serves direct connections to one address, as a sandbox's listener
// would be: the address of the listener is what the program meant.
func directRig(t *testing.T, r *rig) (*Direct, net.Listener) {
	t.Helper()
	d := r.s.NewDirect(Invocation{ID: "id", Command: "cmd"})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Serve(ln) }()
	t.Cleanup(func() { ln.Close(); <-done })
	return d, ln
}

func TestDirect(t *testing.T) {
	echo := echoServer(t)
	for _, c := range []struct {
		name  string
		allow string
		host  string // that the listener's address stands for; empty for itself
		reach bool
	}{
		{"by address", "127.0.0.1", "", true},
		{"by the name of this machine", "localhost", "", true},
		{"by name", "srv.example", "srv.example", true},
		{"not allowed", "other.example", "", false},
		{"a name is not its address", "127.0.0.1", "srv.example", false},
		{"an address behind a name that is not allowed there", "bad.example", "bad.example", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var port string
			r := newRig(t, setup{
				allow: []string{c.allow}, names: map[string]string{"srv.example": "192.0.2.1", "bad.example": "169.254.169.254"},
				options: func(o *Options) {
					o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
						_, asked, _ := net.SplitHostPort(address)
						if asked != port {
							t.Errorf("dialed %s, want port %s", address, port)
						}
						return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+echo)
					}
				},
			})
			d, ln := directRig(t, r)
			_, port, _ = net.SplitHostPort(ln.Addr().String())
			to := ln.Addr().(*net.TCPAddr).AddrPort()
			if c.host != "" {
				d.names.owners[to.Addr()] = c.host
			}
			if got := d.Judge(context.Background(), to); got != c.reach && c.host != "bad.example" {
				t.Errorf("judged %v", got)
			}
			if reached := echoes(ln.Addr().String()); reached != c.reach {
				t.Errorf("reached %v; refused: %s", reached, r.lines())
			}
			if !c.reach && !strings.Contains(r.lines(), "deny network-outbound") {
				t.Errorf("the refusal is not recorded: %s", r.lines())
			}
		})
	}
}

// echoes reports whether an echo server is reached; a refused connection may be
// reset at any moment.
func echoes(address string) bool {
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	_, _ = io.WriteString(conn, "ping")
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	return err == nil && string(got) == "ping"
}

// A proxy's client that looked a name up itself means the name; for another command
// the address stands for nothing.
func TestProxiesKnowAddressesOfNames(t *testing.T) {
	port := webServer(t, echoHead)
	r := newRig(t, setup{
		allow: []string{"*.x.example", "127.0.0.1", "198.18.0.3"}, deny: []string{"no.x.example:" + port},
		names: map[string]string{"a.x.example": "127.0.0.1"},
		options: func(o *Options) {
			o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "198.18.") {
					return nil, errors.New("not in a test")
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			}
		},
	})
	d := r.s.NewDirect(Invocation{ID: "id", Command: "cmd"})
	var addrs []string
	for _, name := range []string{"a.x.example.", "no.x.example.", "literal.x.example."} {
		_, found := lookUp(t, d, name, dnsmessage.TypeA)
		addrs = append(addrs, found[0].String())
	}
	ln := testutil.Listen(t)
	served := make(chan error, 1)
	go func() { served <- r.s.Serve(ln, d.Invocation()) }()
	t.Cleanup(func() { ln.Close(); <-served })
	own := &rig{t: t, s: r.s, addr: ln.Addr().String()}
	for name, ask := range map[string]func(r *rig, host string) string{
		"connect": func(r *rig, host string) string {
			return r.exchange(connectTo(host+":"+port) + "GET / HTTP/1.0\r\n\r\n")
		},
		"http": func(r *rig, host string) string {
			return r.exchange("GET http://" + host + ":" + port + "/ HTTP/1.0\r\n\r\n")
		},
		"socks": func(r *rig, host string) string {
			address := string(netip.MustParseAddr(host).AsSlice())
			return r.exchange(socksOpen + socksRaw(1, 1, address, port) + "GET / HTTP/1.0\r\n\r\n")
		},
	} {
		if got := ask(own, addrs[0]); !strings.Contains(got, "GET / HTTP/1.") || name == "http" && !strings.Contains(got, "Host: a.x.example:"+port+"\r\n") {
			t.Errorf("%s: %q", name, got)
		}
		r.lines()
		if got := ask(own, addrs[1]); strings.Contains(got, "GET /") || r.lines() != "deny network-outbound no.x.example:"+port+" (host is on the deny list)" {
			t.Errorf("%s of a denied name: %q", name, got)
		}
		if got := ask(own, addrs[2]); strings.Contains(got, "GET /") || r.lines() != "" { // allowed as the address that it is, and dialed as such
			t.Errorf("%s of an allowed address: %q", name, got)
		}
		if got := ask(r, addrs[0]); strings.Contains(got, "GET /") || r.lines() != "deny network-outbound "+addrs[0]+":"+port+" (host is not on the allow list)" {
			t.Errorf("%s of another command: %q", name, got)
		}
	}
}

// A program without a proxy takes its connection for made: what it sends while it is
// dialed, and the end of that, are no reason to give it up.
func TestDirectSpeaksAtOnce(t *testing.T) {
	port := server(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(all))
	})
	for name, size := range map[string]int{"ends": 10, "sends much": 3 << 20} {
		r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.patience = 1 }, options: func(o *Options) {
			o.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
			}
		}})
		_, ln := directRig(t, r)
		conn, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		go func() {
			_, _ = conn.Write(make([]byte, size))
			closeWrite(conn)
		}()
		if got, err := io.ReadAll(conn); string(got) != fmt.Sprintf("%d bytes", size) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		conn.Close()
	}
}

// Who is gone is not dialed for.
func TestDirectLeaves(t *testing.T) {
	dialing, done := make(chan struct{}), make(chan struct{})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, waits: func(w *waits) { w.patience = 1 }, options: func(o *Options) {
		o.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			close(dialing)
			<-ctx.Done()
			close(done)
			return nil, ctx.Err()
		}
	}})
	_, ln := directRig(t, r)
	conn, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	<-dialing
	reset(conn)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the dial goes on")
	}
}
