package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/proxy"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// warnings collects what the user is told.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) count(part string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.said {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

func entry() proxy.Access {
	return proxy.Access{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), Duration: 1500 * time.Millisecond, Protocol: "connect", Host: "a.test", Port: 443,
		Address: "192.0.2.1:443", Allowed: true, Rule: `network.allowedDomains[0] "a.test"`, Sent: 12, Received: 34,
		Command: "curl -u user:secret https://a.test/?token=secret", CommandID: "ID",
	}
}

func TestLine(t *testing.T) {
	var out bytes.Buffer
	l := New(&out, func(s string) { t.Error(s) })
	l.Add(entry())
	e := entry()
	e.Protocol, e.Allowed, e.Err, e.Address, e.Reason, e.Setting, e.Port = "dns", false, errors.New("secret"), "", "off\n\x1b[2Jthe <list>", `add "b.test"`, 0
	l.Add(e)
	e.Allowed, e.Reason, e.Setting, e.Err = true, "", "", errors.New("dialing http://user:secret@proxy failed")
	l.Add(e)
	e = entry()
	e.Protocol, e.Host, e.Port, e.Address, e.Via, e.Rule = proxy.ProtocolExternal, "127.0.0.1", 8080, "127.0.0.1:8080", proxy.ProtocolExternal, "network.httpProxyPort"
	l.Add(e)
	l.Close()
	l.Close()
	l.Add(entry()) // too late, and no harm
	want := `{"time":"2026-01-02T03:04:05.006Z","invocation":"ID","frontend":"connect","host":"a.test","port":443,"address":"192.0.2.1:443","verdict":"allow","rule":"network.allowedDomains[0] \"a.test\"","sent":12,"received":34,"duration":1.5}
{"time":"2026-01-02T03:04:05.006Z","invocation":"ID","frontend":"dns","host":"a.test","verdict":"deny","rule":"network.allowedDomains[0] \"a.test\"","reason":"off [2Jthe list","setting":"add \"b.test\"","sent":12,"received":34,"duration":1.5}
{"time":"2026-01-02T03:04:05.006Z","invocation":"ID","frontend":"dns","host":"a.test","verdict":"allow","rule":"network.allowedDomains[0] \"a.test\"","error":"failed","sent":12,"received":34,"duration":1.5}
{"time":"2026-01-02T03:04:05.006Z","invocation":"ID","frontend":"external","host":"127.0.0.1","port":8080,"address":"127.0.0.1:8080","via":"external","verdict":"unfiltered","rule":"network.httpProxyPort","sent":12,"received":34,"duration":1.5}
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}

// Whatever is logged, a line fits what a pipe takes at once.
func TestLongestLine(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 9000), strings.Repeat("\u4e00", 9000), strings.Repeat(`"\`, 9000), strings.Repeat("\U0001F600", 9000), strings.Repeat("\xff", 9000)} {
		e := entry()
		e.Host, e.Rule, e.Reason, e.Setting, e.Address, e.CommandID, e.Allowed, e.Err = long, long, long, long, long, long, false, errors.New(long)
		line := encode(newRecord(e))
		if len(line) > maxLine || bytes.Count(line, []byte{'\n'}) != 1 || !json.Valid(line) {
			t.Errorf("%d bytes: %.80q", len(line), line)
		}
	}
}

// A reader that does not read costs lines, never time, and is told how many.
func TestSlowReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var said warnings
	l := New(w, said.add)
	start := time.Now()
	const n = 5 * maxWaiting
	for range n {
		l.Add(entry())
	}
	if d := time.Since(start); d > testutil.Patience { // nobody reads yet
		t.Errorf("it took %v", d)
	}
	if said.count("too slow") != 1 || len(said.said) != 1 {
		t.Errorf("said %q", said.said)
	}
	read := make(chan []byte)
	go func() { all, _ := io.ReadAll(r); read <- all }()
	l.Close()
	w.Close()
	lines, lost := 0, 0
	for line := range strings.Lines(string(<-read)) {
		var e struct {
			Host string
			Lost int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("torn: %q", line)
		}
		if lost += e.Lost; e.Host != "" {
			lines++
		}
	}
	if lines+lost != n || lost == 0 {
		t.Errorf("%d lines and %d lost of %d", lines, lost, n)
	}
}

// The end of a run waits for a stuck reader only briefly.
func TestStuckReader(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	var said warnings
	l := New(w, said.add)
	l.Add(entry())
	start := time.Now()
	l.Close()
	if d := time.Since(start); d > closeTime+testutil.Patience || said.count("last lines") != 1 {
		t.Errorf("%v, said %q", d, said.said)
	}
}

// Nor does traffic wait for who is warned, which may be the reader of the log.
func TestStuckWarning(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	stuck := make(chan struct{})
	defer close(stuck)
	l := New(w, func(string) { <-stuck })
	added := make(chan struct{})
	go func() {
		for range 2 * maxWaiting {
			l.Add(entry())
		}
		l.Close()
		close(added)
	}()
	select {
	case <-added:
	case <-time.After(testutil.Patience):
		t.Error("the log waits")
	}
}

func TestClosedPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var said warnings
	l := New(w, said.add)
	for range 100 {
		l.Add(entry())
	}
	l.Close()
	if said.count("broken pipe") != 1 || len(said.said) != 1 {
		t.Errorf("said %q", said.said)
	}
}

// fullDisk takes part of a write once it is full.
type fullDisk struct {
	*os.File
	left int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) <= d.left {
		d.left -= len(p)
		return d.File.Write(p)
	}
	n, _ := d.File.Write(p[:d.left])
	d.left = 0
	return n, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
}

// throughFile writes to a file in a way of its own.
type throughFile struct{ f *os.File }

func (t throughFile) Write(p []byte) (int, error) { return t.f.Write(p) }
func (t throughFile) File() *os.File              { return t.f }

// A full disk tears no line, and the gap is accounted for once there is room.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := encode(newRecord(entry()))
	disk := &fullDisk{File: f, left: 2*len(line) + 10}
	out := &output{w: disk}
	for i := range 4 {
		if err := out.put(line); (err != nil) != (i >= 2) {
			t.Errorf("line %d: %v", i, err)
		}
	}
	disk.left = 1 << 20
	if err := out.put(line); err != nil {
		t.Error(err)
	}
	// The wrapper hides the file, so the torn line is ended, not taken back.
	got, _ := os.ReadFile(path)
	if want := string(line) + string(line) + string(line[:10]) + "\n" + string(line); string(got) != want {
		t.Errorf("%q", got)
	}

	plain := &output{w: throughFile{f}}
	if _, err := f.WriteString("torn"); err != nil {
		t.Fatal(err)
	}
	if !plain.takeBack(4) {
		t.Error("the part of a line stays")
	}
	if now, _ := os.ReadFile(path); string(now) != string(got) {
		t.Errorf("%q", now)
	}
	_, _ = f.WriteString("torn")
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, _ = other.WriteString("\nby somebody else\n")
	if plain.takeBack(4) {
		t.Error("what somebody else wrote is cut off")
	}
}

// A file that was not opened for appending has no hole where a line was taken back.
func TestFullDiskWithoutAppending(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("one\ntorn"); err != nil {
		t.Fatal(err)
	}
	if o := (&output{w: f}); !o.takeBack(4) || o.put([]byte("two\n")) != nil {
		t.Error("nothing can be written any more")
	}
	if got, _ := os.ReadFile(path); string(got) != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
}

func TestGapAfterFullDisk(t *testing.T) {
	var said warnings
	var mu sync.Mutex
	full, n := true, 0
	var out bytes.Buffer
	l := New(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if n++; full {
			return 0, syscall.ENOSPC
		}
		return out.Write(p)
	}), said.add)
	for range 3 {
		l.Add(entry())
	}
	testutil.Eventually(t, "an attempt to write each line", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return n >= 5
	})
	mu.Lock()
	full = false
	mu.Unlock()
	l.Add(entry())
	l.Close()
	if lines := strings.SplitAfter(out.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[0], `"lost":3}`) || !strings.Contains(lines[1], `"host"`) {
		t.Errorf("%q", out.String())
	}
	if said.count("no space left") != 1 || len(said.said) != 1 {
		t.Errorf("said %q", said.said)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
