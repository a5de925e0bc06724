package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/srt-sandbox/srt/config"
)

// accessLines waits for n entries and writes each as one line, without times.
func (r *rig) accessLines(n int) []string {
	r.t.Helper()
	var all []string
	eventually(r.t, fmt.Sprint(n, " entries"), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.accesses) >= n
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.accesses {
		verdict := "deny"
		if a.Allowed {
			verdict = "allow"
		}
		all = append(all, fmt.Sprintf("%s %s:%d [%s %s] %s {%s} {%s} %q %d/%d %s", a.Protocol, a.Host, a.Port, a.Address, a.Via, verdict, a.Rule, a.Reason, a.Failure(), a.Sent, a.Received, a.CommandID))
		if a.Time.IsZero() || a.Duration < 0 || !a.Allowed && a.Err == nil {
			r.t.Errorf("%+v", a)
		}
	}
	slices.Sort(all)
	return all
}

// Each decision has one entry, when it was refused or its connection ended.
func TestAccess(t *testing.T) {
	echo := echoServer(t)
	web := webServer(t, echoHead)
	gone := closedPort(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1", "gone.test", "inside.test"}, deny: []string{"evil.test"}, names: map[string]string{"inside.test": "169.254.1.1"}})
	conn := r.tunnel("127.0.0.1:" + echo)
	_, _ = io.WriteString(conn, "ping")
	expect(t, conn, "ping")
	r.mu.Lock()
	if len(r.accesses) != 0 {
		t.Error("an open tunnel is reported")
	}
	r.mu.Unlock()
	conn.Close()
	r.exchange(connectTo("Off.test:443"))
	r.exchange(connectTo("b%d:443"))
	r.exchange(connectTo("secret@host:443"))
	r.exchange(connectTo("evil.test:443"))
	r.exchange(connectTo("inside.test:443"))
	r.exchange(connectTo("127.0.0.1:" + gone))
	r.exchange(socksConnect("gone.test", "80"))
	socks := r.socksTunnel("127.0.0.1", echo)
	_, _ = io.WriteString(socks, "0123456789")
	expect(t, socks, "0123456789")
	_ = socks.CloseWrite()
	_, _ = io.ReadAll(socks)
	got := r.exchange("GET http://127.1:" + web + "/secret?q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	head := "GET /secret?q HTTP/1.1\r\nHost: 127.0.0.1:" + web + "\r\nConnection: close\r\n\r\n"
	if !strings.HasSuffix(got, head) {
		t.Fatalf("%q", got)
	}
	want := []string{
		`connect 127.0.0.1:` + echo + ` [127.0.0.1:` + echo + ` ] allow {network.allowedDomains[0] "127.0.0.1"} {} "" 4/4 id`,
		`connect off.test:443 [ ] deny {network.allowedDomains} {host is not on the allow list} "" 0/0 id`,
		`connect b%d:443 [ ] deny {built-in} {malformed host} "" 0/0 id`,
		`connect host:443 [ ] deny {built-in} {malformed host} "" 0/0 id`,
		`connect evil.test:443 [ ] deny {network.deniedDomains[0] "evil.test"} {host is on the deny list} "" 0/0 id`,
		`connect inside.test:443 [ ] deny {resolved address check} {resolved to a link-local address} "" 0/0 id`,
		`connect 127.0.0.1:` + gone + ` [ ] allow {network.allowedDomains[0] "127.0.0.1"} {} "connection refused" 0/0 id`,
		`socks gone.test:80 [ ] allow {network.allowedDomains[1] "gone.test"} {} "name not resolved" 0/0 id`,
		`socks 127.0.0.1:` + echo + ` [127.0.0.1:` + echo + ` ] allow {network.allowedDomains[0] "127.0.0.1"} {} "" 10/10 id`,
		fmt.Sprintf(`http 127.0.0.1:%s [127.0.0.1:%s ] allow {network.allowedDomains[0] "127.0.0.1"} {} "" %d/%d id`, web, web, len(head), len(head)+len(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(head)))),
	}
	slices.Sort(want)
	if got := r.accessLines(len(want)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A client that leaves while it waits is no refusal and no failure of the server.
func TestAccessOfLeaver(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, setup{options: func(o *Options) {
		o.Ask = func(ctx context.Context, _ AskRequest) (AskDecision, error) {
			close(asked)
			<-ctx.Done()
			return AskDecision{}, ctx.Err()
		}
	}})
	conn := r.dial()
	_, _ = io.WriteString(conn, connectTo("off.test:443"))
	<-asked
	conn.Close()
	if got := r.accessLines(1); got[0] != `connect off.test:443 [ ] deny {network.allowedDomains} {} "client left" 0/0 id` {
		t.Error(got)
	}
}

// An upgraded connection counts what went through it after the upgrade, too.
func TestAccessOfUpgrade(t *testing.T) {
	web := webServer(t, func(_ string, body *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n")
		got := make([]byte, 4)
		_, _ = io.ReadFull(body, got)
		_, _ = w.Write(append(got, got...))
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	fmt.Fprintf(conn, "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n", web)
	expect(t, conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n")
	_, _ = io.WriteString(conn, "ping")
	expect(t, conn, "pingping")
	conn.Close()
	sent := len("GET / HTTP/1.1\r\nHost: 127.0.0.1:"+web+"\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n") + 4
	received := len("HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n") + 8
	if got := r.accessLines(1); !strings.HasSuffix(got[0], fmt.Sprintf(" %d/%d id", sent, received)) {
		t.Errorf("%s; want %d/%d", got, sent, received)
	}
}

// network 41, 51: a person is asked once about a connection without a proxy,
// before it is made, and again about the next one.
func TestAskDirect(t *testing.T) {
	echo := echoServer(t)
	questions := 0
	answer := AskDecision{Allow: true}
	r := newRig(t, setup{names: map[string]string{"srv.example": "192.0.2.1"}, options: func(o *Options) {
		o.Ask = func(_ context.Context, q AskRequest) (AskDecision, error) {
			questions++
			if q.Host != "srv.example" {
				return AskDecision{}, errors.New("another host")
			}
			return answer, nil
		}
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+echo)
		}
	}})
	d, ln := directRig(t, r)
	to := ln.Addr().(*net.TCPAddr).AddrPort()
	if code, addrs := lookUp(t, d, "srv.example.", dnsmessage.TypeA); code != 0 || len(addrs) != 1 {
		t.Errorf("a name that a person may allow is not known: %v", code)
	}
	d.names.owners[to.Addr()] = "srv.example"
	for want := 1; want <= 2; want++ {
		for range 2 { // the second is the same call, which a signal interrupted
			if !d.Judge(t.Context(), to) {
				t.Fatal("refused")
			}
		}
		if !echoes(ln.Addr().String()) {
			t.Fatal("not reached")
		}
		if questions != want {
			t.Errorf("%d questions, want %d", questions, want)
		}
	}
	answer = AskDecision{Reason: "no"}
	if d.Judge(t.Context(), to) || echoes(ln.Addr().String()) || r.lines() != "deny network-outbound srv.example:"+itoa(int(to.Port()))+" (no)\ndeny network-outbound srv.example:"+itoa(int(to.Port()))+" (no)" {
		t.Error("a grant lasts")
	}
	var got []string
	for _, line := range r.accessLines(5) {
		got = append(got, strings.NewReplacer(":"+itoa(int(to.Port())), ":PORT", echo, "ECHO").Replace(line))
	}
	want := []string{
		`dns srv.example:0 [ ] allow {the connection is asked about} {} "" 0/0 id`,
		`transparent srv.example:PORT [ ] deny {the answer to the question} {no} "" 0/0 id`,
		`transparent srv.example:PORT [ ] deny {the answer to the question} {no} "" 0/0 id`,
		`transparent srv.example:PORT [127.0.0.1:ECHO ] allow {the answer to the question} {} "" 4/4 id`,
		`transparent srv.example:PORT [127.0.0.1:ECHO ] allow {the answer to the question} {} "" 4/4 id`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// Grants that are not used end, and their number is bounded.
func TestGrants(t *testing.T) {
	var g grants
	to := net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	for range maxGrants + 10 {
		g.add(to.AddrPort())
	}
	if n := len(g.left[to.AddrPort()]); n != maxGrants {
		t.Errorf("%d grants", n)
	}
	for i := range g.left[to.AddrPort()] {
		g.left[to.AddrPort()][i] = time.Now().Add(-time.Second)
	}
	if g.holds(to.AddrPort()) || g.take(to.AddrPort()) || len(g.left) != 0 {
		t.Error("old grants last")
	}
}

// Clients that know EDNS learn why a name does not exist inside.
func TestNameExplanation(t *testing.T) {
	r := newRig(t, setup{allow: []string{"a.example"}, deny: []string{"no.example"}, network: func(n *config.Network) {
		n.DeniedDomainReasons = map[string]string{"no.example": "use the mirror"}
	}})
	d := r.s.NewDirect(Invocation{})
	for name, want := range map[string]string{
		"off.example.": `host is not on the allow list; to allow it: add "off.example" to network.allowedDomains`,
		"no.example.":  `use the mirror; to allow it: remove "no.example" from network.deniedDomains`,
		"a.example.":   "",
	} {
		for _, edns := range []bool{true, false} {
			b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 1})
			_ = b.StartQuestions()
			_ = b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET})
			if edns {
				_ = b.StartAdditionals()
				var h dnsmessage.ResourceHeader
				_ = h.SetEDNS0(1232, 0, false)
				_ = b.OPTResource(h, dnsmessage.OPTResource{})
			}
			query, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			var m dnsmessage.Message
			if err := m.Unpack(d.answerQuery(query)); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, x := range m.Additionals {
				for _, o := range x.Body.(*dnsmessage.OPTResource).Options {
					got += fmt.Sprint(o.Code, o.Data[0], o.Data[1], " ", string(o.Data[2:]))
				}
			}
			if want := "15 0 15 " + want; !edns && got != "" || edns && got != want && (got != "" || want != "15 0 15 ") {
				t.Errorf("%s %v: %q, want %q", name, edns, got, want)
			}
		}
	}
	if got := r.accessLines(6); !slices.Contains(got, `dns off.example:0 [ ] deny {network.allowedDomains} {host is not on the allow list} "" 0/0 `) {
		t.Errorf("%q", got)
	}
}
