package proxy

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// socksRequest is a request for a host as a name.
func socksRequest(cmd byte, host, port string) string {
	return socksRaw(cmd, 3, string([]byte{byte(len(host))})+host, port)
}

func socksRaw(cmd, kind byte, address, port string) string {
	p, _ := strconv.Atoi(port)
	return string([]byte{5, cmd, 0, kind}) + address + string([]byte{byte(p >> 8), byte(p)})
}

const socksOpen = "\x05\x01\x00"

func socksConnect(host, port string) string { return socksOpen + socksRequest(1, host, port) }

func (r *rig) socksTunnel(host, port string) *net.TCPConn {
	r.t.Helper()
	conn := r.dial()
	_, _ = io.WriteString(conn, socksConnect(host, port))
	expect(r.t, conn, "\x05\x00"+string(socksReply(socksSucceeded)))
	return conn
}

// network 121, 122, 123, 28
func TestSOCKSReplies(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"127.0.0.1", "unknown.test", "evil.test", "[::ffff:169.254.169.254]", "allowed.com", "x.allowed.com"}, deny: []string{"169.254.169.254"},
		names: map[string]string{"evil.test": "127.0.0.2"},
	})
	// network 126, 127: an SSH client cannot show a code, and reads why.
	got := r.exchange(socksConnect("off.test", "22"))
	packet, ok := strings.CutPrefix(got, "\x05\x00"+string(socksReply(socksSucceeded))+"SSH-2.0-policy_refusal\r\n")
	if text, err := sshText(packet); !ok || err != nil || text != `host is not on the allow list; to allow it: add "off.test" to network.allowedDomains` {
		t.Errorf("%q, %v", got, err)
	}
	if got := r.lines(); got != "deny network-outbound off.test:22 (host is not on the allow list)" {
		t.Errorf("recorded %q", got)
	}
	if got := r.exchange(socksConnect("unknown.test", "22")); got != "\x05\x00"+string(socksReply(socksHostUnreachable)) {
		t.Errorf("no refusal: %q", got)
	}
	for what, c := range map[string]struct {
		raw  string
		want string
		line string
	}{
		"off the list":    {socksRequest(1, "off.test", "80"), "\x05\x02", "deny network-outbound off.test:80 (host is not on the allow list)"},
		"NUL":             {socksRequest(1, "evil.com\x00.allowed.com", "80"), "\x05\x02", "deny network-outbound evil.com .allowed.com:80 (malformed host)"},
		"line break":      {socksRequest(1, "a\r\nX: y", "80"), "\x05\x02", "deny network-outbound [a X: y]:80 (malformed host)"},
		"zone":            {socksRequest(1, "::1%x.allowed.com", "80"), "\x05\x02", "deny network-outbound [::1%x.allowed.com]:80 (malformed host)"},
		"empty":           {socksRequest(1, "", "80"), "\x05\x02", "deny network-outbound :80 (malformed host)"},
		"long":            {socksRequest(1, strings.Repeat("a.", 127)+"a", "80"), "\x05\x02", ""},
		"mapped":          {socksRaw(1, 4, string(netip.MustParseAddr("::ffff:169.254.169.254").AsSlice()), "80"), "\x05\x02", "deny network-outbound 169.254.169.254:80 (host is on the deny list)"},
		"resolved":        {socksRequest(1, "evil.test", "80"), "\x05\x02", "deny network-outbound evil.test:80 (resolved to a loopback address)"},
		"refused":         {socksRaw(1, 1, "\x7f\x00\x00\x01", closedPort(t)), "\x05\x05", ""},
		"unknown name":    {socksRequest(1, "unknown.test", "80"), "\x05\x04", ""},
		"port 0":          {socksRaw(1, 1, "\x7f\x00\x00\x01", "0"), "\x05\x04", ""},
		"BIND":            {socksRaw(2, 1, "\x7f\x00\x00\x01", "80"), "\x05\x07", ""},
		"UDP ASSOCIATE":   {socksRaw(3, 1, "\x7f\x00\x00\x01", "80"), "\x05\x07", ""},
		"unknown command": {socksRaw(9, 1, "\x7f\x00\x00\x01", "80"), "\x05\x07", ""},
		"address type":    {socksRaw(1, 9, "", "0"), "\x05\x08", ""},
	} {
		want := "\x05\x00" + c.want + "\x00\x01\x00\x00\x00\x00\x00\x00"
		if got := r.exchange(socksOpen + c.raw); got != want {
			t.Errorf("%s: % x", what, got)
		}
		if got := r.lines(); c.line != "" && got != c.line || c.line == "" && what != "long" && got != "" {
			t.Errorf("%s: recorded %q", what, got)
		}
	}
}

// network 120, 18: everything at once, and byte by byte.
func TestSOCKSTunnel(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1", "localhost"}})
	const done = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	for what, c := range map[string][2]string{
		"address":       {socksOpen + socksRaw(1, 1, "\x7f\x00\x00\x01", port), "\x05\x00" + done},
		"name":          {socksConnect("localhost", port), "\x05\x00" + done},
		"mapped":        {socksOpen + socksRaw(1, 4, string(netip.MustParseAddr("::ffff:127.0.0.1").AsSlice()), port), "\x05\x00" + done},
		"many methods":  {"\x05\x03\x01\x02\x00" + socksRequest(1, "127.1", port), "\x05\x00" + done},
		"password only": {"\x05\x01\x02\x01\x01u\x01p" + socksRequest(1, "127.0.0.1", port), "\x05\x02\x01\x00" + done},
	} {
		for _, step := range []int{1, 1000} {
			conn := r.dial()
			for raw := c[0] + "hi"; raw != ""; raw = raw[min(step, len(raw)):] {
				_, _ = io.WriteString(conn, raw[:min(step, len(raw))])
			}
			expect(t, conn, c[1]+"hi")
			_ = conn.CloseWrite()
			if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
				t.Errorf("%s: %q, %v", what, rest, err)
			}
		}
	}
}

// network 3, 6, 121
func TestSOCKSRefusesOtherProtocols(t *testing.T) {
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	for raw, want := range map[string]string{
		"\x04\x01\x00\x50\x7f\x00\x00\x01\x00": "",
		"\x05\x01\x07":                         "\x05\xff",
		"\x05\x00":                             "",
		"\x05\x01\x00\x04\x01\x00\x01":         "\x05\x00",
		"\x05\x01\x00GET http://127.0.0.1/ HTTP/1.1\r\n\r\n":                "\x05\x00",
		"\x05GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\x00": "",
		"\x05\x01\x02\x05\x01u\x01p":                                        "\x05\x02",
	} {
		conn := r.dial()
		_, _ = io.WriteString(conn, raw)
		_ = conn.CloseWrite()
		if got, _ := io.ReadAll(conn); string(got) != want {
			t.Errorf("%q: % x, want % x", raw, got, want)
		}
	}
}

// network 124; a refusal by policy is always reply 02 here.
func TestRefuseOpaqueTunnels(t *testing.T) {
	port := untouched(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, deny: []string{"bad.test"}, options: func(o *Options) { o.RefuseOpaqueTunnels = true }})
	if got := r.exchange(socksConnect("127.1", port)); got != "\x05\x00"+string(socksReply(socksRuleset)) {
		t.Errorf("% x", got)
	}
	if got := r.lines(); got != "deny socks-tunnel 127.0.0.1:"+port+" (refuseOpaqueTunnels)" {
		t.Errorf("%q", got)
	}
	got := r.exchange(connectTo("127.0.0.1:" + port))
	if status(got) != "HTTP/1.1 403 Forbidden" || !strings.Contains(got, "X-Proxy-Error: blocked-by-sandbox-runtime\r\n") || !strings.HasSuffix(got, "\r\n\r\nthis proxy does not tunnel CONNECTs it cannot inspect\nTo allow it: set network.refuseOpaqueTunnels to false\n") {
		t.Errorf("%q", got)
	}
	r.mu.Lock()
	cure := r.events[0].Setting
	r.mu.Unlock()
	if got := r.lines(); got != "deny http-request CONNECT 127.0.0.1:"+port+" (this proxy does not tunnel CONNECTs it cannot inspect)" || cure != "set network.refuseOpaqueTunnels to false" {
		t.Errorf("%q, %q", got, cure)
	}
	if got := r.exchange(connectTo("bad.test:443")); status(got) != "HTTP/1.1 403 host is on the deny list" {
		t.Errorf("the lists come first: %q", got)
	}
	r.lines()
	upgrade := "GET http://127.0.0.1:" + port + "/?secret HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
	if got := r.exchange(upgrade); status(got) != "HTTP/1.1 403 Forbidden" {
		t.Errorf("%q", got)
	}
	if got := r.lines(); got != "deny http-request GET http://127.0.0.1:"+port+"/?… (this proxy does not tunnel what it cannot inspect)" {
		t.Errorf("%q", got)
	}
}

// A name with a suffix that is on the list does not get through as bytes.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte(socksConnect("127.0.0.1", "80")))
	f.Add([]byte("\x05\x01\x02\x01\x03srt\x01p" + socksRequest(1, "h", "22")))
	f.Add([]byte(socksOpen + socksRaw(1, 4, strings.Repeat("\x00", 16), "1")))
	hosts := hostLists(f, setup{network: func(n *config.Network) { n.AllowedDomains = nil }})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := New(hosts, Options{})
		for _, token := range []string{"", "t"} {
			near, far := net.Pipe()
			v := &service{s: s, ln: noListener{}, busy: make(chan struct{}, 1), open: map[net.Conn]struct{}{}}
			v.ctx, v.cancel = t.Context(), func() {}
			done := make(chan []byte)
			go func() {
				got, _ := io.ReadAll(near)
				done <- got
			}()
			go func() { _, _ = near.Write(append([]byte{5}, raw...)); near.Close() }()
			newClient(v, far, Invocation{Token: token}).serve()
			far.Close()
			if got := <-done; bytes.Contains(got, socksReply(socksSucceeded)) && !bytes.Contains(got, []byte("SSH-2.0-policy_refusal")) {
				t.Errorf("% x succeeded: % x", raw, got)
			}
		}
	})
}

type noListener struct{ net.Listener }

func (noListener) Close() error { return nil }
