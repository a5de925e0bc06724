package proxy

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/hostname"
)

const token = "0123456789abcdef0123456789abcdef"

func basic(userAndPassword string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

func authorized(target, credentials string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + credentials + "\r\n\r\n"
}

// network 7, 8, 9, 10, 11, 12, 13
func TestCredentials(t *testing.T) {
	port := webServer(t, echoHead)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, who: Invocation{Token: token}})
	target := "127.0.0.1:" + port
	unpadded := strings.TrimRight(basic("srt:"+token), "=")
	for credentials, ok := range map[string]bool{
		basic("srt:" + token): true, basic("alice:" + token): true, "bAsIc " + unpadded[6:]: true, "Basic   " + unpadded[6:] + " ": true,
		basic(":" + token): false, basic(token): false, "Bearer " + token: false, basic("srt:" + token + ":x"): false, basic("srt:x" + token): false, basic("srt:"): false,
		basic("srt:"+token) + "!": false, "": false, "Basic": false, basic("srt:" + token[:31]): false, basic("srt:" + strings.ToUpper(token)): false,
	} {
		got := r.exchange(authorized(target, credentials) + "GET / HTTP/1.0\r\n\r\n")
		if ok && !strings.HasPrefix(got, established) || !ok && status(got) != "HTTP/1.1 407 Proxy Authentication Required" {
			t.Errorf("%q: %q", credentials, got)
		}
	}
	for name, raw := range map[string]string{
		"none":          connectTo(target),
		"denied host":   connectTo("off.test:1"),
		"bad target":    connectTo("nonsense"),
		"other header":  "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + basic("srt:"+token) + "\r\n\r\n",
		"two of them":   "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic("srt:"+token) + "\r\nProxy-Authorization: Basic x\r\n\r\n",
		"another token": authorized(target, basic("srt:"+strings.Repeat("0", 32))),
	} {
		got := r.exchange(raw)
		if status(got) != "HTTP/1.1 407 Proxy Authentication Required" || !strings.Contains(got, "\r\nProxy-Authenticate: Basic realm=\"srt\"\r\n") || !strings.Contains(got, "Connection: close\r\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, line := range r.accessLines(4) {
		if !strings.Contains(line, "] allow {") {
			t.Errorf("a client without credentials left %s", line)
		}
	}
	if len(r.lines()) > 0 || r.lookedUp() > 0 {
		t.Error("clients without credentials left traces")
	}
	// A plain request without credentials leaves the connection usable.
	get := "POST http://" + target + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
	got := r.exchange(get + "\r\nab" + get + "Proxy-Authorization: " + basic("srt:"+token) + "\r\nProxy.authorization: x\r\nConnection: close\r\n\r\nab")
	if !strings.HasPrefix(got, "HTTP/1.1 407 ") || !strings.Contains(got, "HTTP/1.1 200 OK") || strings.Contains(got, "roxy-Auth: ") || strings.Contains(got[10:], "Proxy.auth") {
		t.Errorf("%q", got)
	}
}

// network 14, 15, 17: whom a refusal is attributed to.
func TestAttribution(t *testing.T) {
	id := base64.StdEncoding.EncodeToString([]byte("foo?>"))
	known := base64.StdEncoding.EncodeToString([]byte("known"))
	own, err := hostname.ParseAllow("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{who: Invocation{Token: token}, options: func(o *Options) {
		o.Identify = func(key string) (Invocation, bool) {
			return Invocation{ID: "K", Command: "the known one", AllowDomains: hostname.NewSet([]hostname.Pattern{own})}, key == "known"
		}
	}})
	for user, want := range map[string][2]string{
		"srt." + id: {id, "foo?"}, "srt." + strings.TrimRight(strings.ReplaceAll(id, "/", "_"), "="): {id, "foo?"},
		"srt." + strings.Repeat("A", 252): {}, "srt.": {}, "srt": {}, "alice": {}, "srt.!!": {}, "srt." + known: {"K", "the known one"},
		"srt." + base64.StdEncoding.EncodeToString([]byte("a\xff\n")): {base64.StdEncoding.EncodeToString([]byte("a\ufffd\n")), "a\ufffd"},
	} {
		r.exchange(authorized("off.test:1", basic(user+":"+token)))
		r.mu.Lock()
		if e := r.events[0]; e.CommandID != want[0] || e.Command != want[1] {
			t.Errorf("%s: %q, %q", user, e.CommandID, e.Command)
		}
		r.events = nil
		r.mu.Unlock()
	}
	port := echoServer(t) // network 50
	for user, want := range map[string]string{"srt." + known: "HTTP/1.1 200 Connection Established", "srt": "HTTP/1.1 403 host is not on the allow list", "srt." + id: "HTTP/1.1 403 host is not on the allow list"} {
		conn := r.dial()
		_, _ = io.WriteString(conn, authorized("127.0.0.1:"+port, basic(user+":"+token)))
		got := make([]byte, len(want))
		_, _ = io.ReadFull(conn, got)
		if string(got) != want {
			t.Errorf("%s: %q", user, got)
		}
		conn.Close()
	}
}

// A listener that belongs to one command is not talked out of it.
func TestListenerIsIdentity(t *testing.T) {
	r := newRig(t, setup{who: Invocation{ID: "own", Command: "c", Token: token}})
	r.exchange(authorized("off.test:1", basic("srt.Zm9v:"+token)))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) != 1 || r.events[0].CommandID != "own" {
		t.Errorf("%+v", r.events)
	}
}

// On a private listener credentials are neither needed nor looked at.
func TestPrivateListener(t *testing.T) {
	r := newRig(t, setup{})
	if got := r.exchange(authorized("off.test:1", "Bearer nonsense")); status(got) != "HTTP/1.1 403 host is not on the allow list" {
		t.Errorf("%q", got)
	}
}

func socksPassword(user, password string) string {
	return "\x05\x02\x00\x02\x01" + string([]byte{byte(len(user))}) + user + string([]byte{byte(len(password))}) + password
}

// network 18, 130
func TestSOCKSCredentials(t *testing.T) {
	port := echoServer(t)
	r := newRig(t, setup{allow: []string{"127.0.0.1"}, who: Invocation{Token: token}})
	for user, password := range map[string]string{"srtx": token, "alice": token, "": token, "srt": token[1:], "SRT": token} {
		if got := r.exchange(socksPassword(user, password) + socksRequest(1, "127.0.0.1", port)); got != "\x05\x02\x01\x01" {
			t.Errorf("%s: % x", user, got)
		}
	}
	for _, user := range []string{"srt", "srt.Zm9v"} {
		conn := r.dial()
		_, _ = io.WriteString(conn, socksPassword(user, token)+socksRequest(1, "127.0.0.1", port)+"hi")
		expect(t, conn, "\x05\x02\x01\x00"+string(socksReply(socksSucceeded))+"hi")
		conn.Close()
	}
	r.exchange(socksPassword("srt.Zm9v", token) + socksRequest(1, "off.test", "1"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) != 1 || r.events[0].CommandID != "Zm9v" || r.events[0].Command != "foo" {
		t.Errorf("%+v", r.events)
	}
}

// network 125–128: clients that know no passwords are told, and nothing more.
func TestStrangers(t *testing.T) {
	r := newRig(t, setup{
		allow: []string{"127.0.0.1"}, deny: []string{"h.test:22", "web.test"}, who: Invocation{Token: token},
		network: func(n *config.Network) {
			n.DeniedDomainReasons = map[string]string{"h.test:22": "use\nhttps " + strings.Repeat("y", 1200)}
		},
		options: func(o *Options) {
			o.RefuseOpaqueTunnels = true
			o.Ask = func(context.Context, AskRequest) (AskDecision, error) {
				t.Error("somebody was asked for a client without credentials")
				return AskDecision{}, nil
			}
		},
	})
	ruleset := "\x05\x00" + string(socksReply(socksRuleset))
	port := untouched(t)
	for _, c := range []struct{ host, port, line string }{
		{"127.0.0.1", port, ""}, {"off.test", "443", ""}, {"web.test", "443", "deny network-outbound web.test:443 (host is on the deny list)"}, {"h.test", "443", ""}, {"a b", "22", ""},
	} {
		if got := r.exchange(socksConnect(c.host, c.port)); got != ruleset {
			t.Errorf("%s: % x", c.host, got)
		}
		if got := r.lines(); got != c.line {
			t.Errorf("%s: recorded %q", c.host, got)
		}
	}
	long := "use https " + strings.Repeat("y", 990)
	for host, want := range map[string][2]string{
		"H.test.":  {long, "deny network-outbound h.test:22 (use https " + strings.Repeat("y", 1200) + ")"},
		"web.test": {"host is on the deny list", "deny network-outbound web.test:22 (host is on the deny list)"}, "off.test": {strangerReason, ""},
	} {
		got := r.exchange(socksConnect(host, "22"))
		packet, ok := strings.CutPrefix(got, "\x05\x00"+string(socksReply(socksSucceeded))+"SSH-2.0-policy_refusal\r\n")
		if text, err := sshText(packet); !ok || err != nil || text != want[0] {
			t.Errorf("%s: %q, %v", host, got, err)
		}
		r.mu.Lock()
		if len(r.events) > 0 && (r.events[0].CommandID != "" || r.events[0].Command != "") {
			t.Errorf("attributed: %+v", r.events[0])
		}
		r.mu.Unlock()
		if got := r.lines(); got != want[1] {
			t.Errorf("%s: recorded %q", host, got)
		}
	}
	for _, raw := range []string{socksOpen + socksRaw(2, 1, "\x7f\x00\x00\x01", "22"), socksOpen + socksRaw(1, 9, "", "22")} {
		if got := r.exchange(raw); got != "\x05\x00" {
			t.Errorf("% x", got)
		}
	}
}

// sshText takes the text out of a disconnect packet as an SSH client does.
func sshText(packet string) (string, error) {
	if len(packet) < 5 || int(binary.BigEndian.Uint32([]byte(packet)))+4 != len(packet) || len(packet)%8 != 0 {
		return "", fmt.Errorf("%d bytes", len(packet))
	}
	padding := int(packet[4])
	if padding < 4 || padding+5 > len(packet) {
		return "", fmt.Errorf("%d bytes of padding", padding)
	}
	payload := packet[5 : len(packet)-padding]
	if len(payload) < 13 || payload[:5] != "\x01\x00\x00\x00\x01" {
		return "", fmt.Errorf("payload %q", payload)
	}
	n := int(binary.BigEndian.Uint32([]byte(payload[5:])))
	if len(payload) != 9+n+4 {
		return "", fmt.Errorf("payload %q", payload)
	}
	return payload[9 : 9+n], nil
}

// network 128: every length of the text gives a well-formed packet.
func TestSSHPadding(t *testing.T) {
	for n := range 40 {
		packet, _ := strings.CutPrefix(string(sshDisconnect(strings.Repeat("z", n))), "SSH-2.0-policy_refusal\r\n")
		if text, err := sshText(packet); err != nil || len(text) != n {
			t.Errorf("%d: %q, %v", n, text, err)
		}
	}
}

// network 129
func TestSilentStranger(t *testing.T) {
	r := newRig(t, setup{who: Invocation{Token: token}, waits: func(w *waits) { w.stranger = 30 * time.Millisecond }})
	if got := r.exchange(socksOpen); got != "\x05\x00" {
		t.Errorf("% x", got)
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add(basic("srt.Zm9v:x"))
	f.Add("basic  c3J0Og")
	f.Fuzz(func(t *testing.T, value string) {
		user, _, ok := parseBasic(value)
		if !ok {
			return
		}
		if key, ok := userKey(user); ok && (key == "" || strings.ToValidUTF8(key, "") != key) {
			t.Errorf("%q gives the key %q", value, key)
		}
	})
}
