package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// Lists change as a whole while connections are made: a host that is allowed
// because it goes to the MITM proxy is at no moment looked up or dialed here,
// and every connection gets the answer of the old lists or of the new ones.
func TestUpdateIsAtomic(t *testing.T) {
	m := mitmForTest(t)
	r := newRig(t, setup{})
	open, closed := hostLists(t, setup{allow: []string{"m.test"}}), hostLists(t, setup{deny: []string{"m.test"}})
	stop := make(chan struct{})
	var updates, clients sync.WaitGroup
	updates.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				r.s.Update(open, m)
			} else {
				r.s.Update(closed, nil)
			}
		}
	})
	for i := range 8 {
		clients.Go(func() {
			for range 100 {
				request := connectTo("m.test:443")
				if i%2 == 0 {
					request = "GET http://m.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
				}
				if got := r.exchange(request); !strings.HasPrefix(got, "HTTP/1.1 200 ") && !strings.HasPrefix(got, "HTTP/1.1 403 ") {
					t.Errorf("%q", got)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	updates.Wait()
	if len(r.lookups) > 0 {
		t.Errorf("%d of the connections went around the MITM proxy", len(r.lookups))
	}
}

// A person may think for long. What the lists say when the answer comes decides,
// and routes what they leave to it.
func TestUpdateDuringQuestion(t *testing.T) {
	m := mitmForTest(t)
	for _, c := range []struct {
		name       string
		lists      setup
		mitm       *MITM
		want, line string
	}{
		{"denied", setup{deny: []string{"m.test"}}, nil, "HTTP/1.1 403 ", "deny network-outbound m.test:80 (host is on the deny list)"},
		{"strict", setup{network: func(n *config.Network) { n.StrictAllowlist = true }}, nil, "HTTP/1.1 403 ", "deny network-outbound m.test:80 (host is not on the allow list)"},
		{"through the MITM proxy", setup{}, m, "HTTP/1.1 200 ", ""},
	} {
		for _, request := range []string{connectTo("m.test:80"), "GET http://m.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"} {
			var r *rig
			r = newRig(t, setup{options: func(o *Options) {
				o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
					r.s.Update(hostLists(t, c.lists), c.mitm)
					return AskDecision{Allow: true}, nil
				}
			}})
			if got := r.exchange(request); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %q", c.name, got)
			}
			if got := r.lines(); got != c.line || r.lookedUp() > 0 {
				t.Errorf("%s: recorded %q, %d lookups", c.name, got, r.lookedUp())
			}
		}
	}
}

// Fields that the settings keep from commands, in every spelling that something
// behind the proxy may take for the same.
func TestStripResponseHeaders(t *testing.T) {
	port := webServer(t, func(head string, _ *bufio.Reader, w io.Writer) {
		fmt.Fprint(w, "HTTP/1.1 103 Early Hints\r\nX-Secret: 1\r\nLink: a\r\n\r\n")
		if strings.Contains(head, "Upgrade: websocket") {
			fmt.Fprint(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nx_secret: 2\r\nKept: 1\r\n\r\n")
			return
		}
		fmt.Fprint(w, "HTTP/1.1 200 OK\r\nX-SECRET: 3\r\nx.secret: 4\r\nX-Secrets: 5\r\nContent-Length: 0\r\n\r\n")
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, options: func(o *Options) { o.StripResponseHeaders = []string{"x_Secret"} }})
	got := r.exchange("GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.Contains(strings.ToLower(got), "secret:") || !strings.Contains(got, "X-Secrets: 5") || !strings.Contains(got, "Link: a") {
		t.Errorf("%q", got)
	}
	got = r.exchange("GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	if strings.Contains(strings.ToLower(got), "secret:") || !strings.Contains(got, "HTTP/1.1 101 ") || !strings.Contains(got, "Kept: 1") {
		t.Errorf("%q", got)
	}
}

// mitmForTest is a MITM proxy for m.test that answers each first request with 200.
func mitmForTest(t *testing.T) *MITM {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	testutil.Serve(t, ln, func(conn net.Conn) {
		if _, err := readHead(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	})
	m, err := NewMITM(&config.MITMProxy{SocketPath: ln.Addr().String(), Domains: []string{"m.test"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
