package proxy

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
)

func FuzzHead(f *testing.F) {
	f.Add("GET http://a/ HTTP/1.1\r\nHost: x\r\n\r\n")
	f.Add("CONNECT a:1 HTTP/1.1\r\nA : b\r\n\r\n")
	f.Add("HTTP/1.1 200 OK\r\nConnection: a\r\nA: b\r\nproxy_authorization: c\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		h, err := readHead(bufio.NewReaderSize(strings.NewReader(raw), maxHead))
		if err != nil {
			return
		}
		var out strings.Builder
		w := bufio.NewWriter(&out)
		_ = writeHead(w, strings.Join(h.start[:], " "), h.endToEnd())
		_ = w.Flush()
		again, err := readHead(bufio.NewReaderSize(strings.NewReader(out.String()), 2*maxHead))
		if err != nil || again.start != h.start || fmt.Sprint(again.fields) != fmt.Sprint(h.endToEnd()) {
			t.Errorf("%q becomes %q, which reads as %+v, %v", raw, out.String(), again, err)
		}
		for _, fl := range h.endToEnd() {
			if isHopByHop(strings.ToLower(fl.name)) || strings.EqualFold(fl.name, "host") || strings.EqualFold(fl.name, "content-length") {
				t.Errorf("%q goes on", fl.name)
			}
		}
		_, _ = h.framing()
	})
}

// A body that is forwarded is the body that was read, whatever its framing was.
func FuzzBody(f *testing.F) {
	f.Add("5\r\nhello\r\n0\r\n\r\nrest", true, int64(0))
	f.Add("hello", false, int64(3))
	f.Fuzz(func(t *testing.T, raw string, chunked bool, length int64) {
		fr := framing{chunked: chunked, sized: !chunked, length: max(length, 0)}
		if chunked {
			fr.length = 0
		}
		s := New(nil, Options{})
		read := func(raw string, fr framing) (string, error) {
			b, err := io.ReadAll(newBody(bufio.NewReaderSize(strings.NewReader(raw), maxHead), fr, false))
			return string(b), err
		}
		want, wantErr := read(raw, fr)
		var out strings.Builder
		readErr, writeErr := s.copyBody(bufio.NewWriter(&out), newBody(bufio.NewReaderSize(strings.NewReader(raw), maxHead), fr, false), true)
		if writeErr != nil || (readErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, %v, want %v", raw, readErr, writeErr, wantErr)
		}
		got, err := read(out.String(), framing{chunked: true})
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%q: %q, %v, want %q, %v", raw, got, err, want, wantErr)
		}
	})
}

func FuzzTarget(f *testing.F) {
	f.Add("http://u@h:1/p?q#f")
	f.Add("[::1]:80")
	f.Add("https://[::ffff:1.2.3.4]/")
	f.Fuzz(func(t *testing.T, s string) {
		if host, port, ok := splitAuthority(s, 0); ok && (port < 1 || port > 65535 || host == "" || strings.ContainsAny(host, "[]")) {
			t.Errorf("%q gives %q port %d", s, host, port)
		}
		u, ok := parseURI(s)
		if !ok {
			return
		}
		if u.port < 1 || u.port > 65535 || u.host == "" || strings.ContainsAny(u.host, "@/?#%\\ []") || !strings.HasPrefix(u.path, "/") || strings.Contains(u.path, "#") {
			t.Errorf("%q gives %+v", s, u)
		}
		if !strings.Contains(u.host, ":") { // an address of its own would be bracketed
			again, ok := parseURI(u.scheme + "://" + authority(u.host, u.port, u.defaultPort()) + u.path)
			if !ok || again != u {
				t.Errorf("%q gives %+v, which gives %+v", s, u, again)
			}
		}
	})
}
