package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// Thousands of clients that stop where the filter holds something for them cost its
// process little, and when they are gone it goes on.
func TestThousandsOfStalledClients(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("measures memory")
	}
	testutil.NeedFiles(t, 2*manyTunnels+200)
	echo := echoServer(t)
	get := "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: x\r\n"
	post := strings.Replace(get, "GET", "POST", 1)
	for name, raw := range map[string]string{
		"silent":      "",
		"heads":       get + "X: " + strings.Repeat("a", 12<<10),
		"SOCKS":       "\x05\x01\x00\x05",
		"early bytes": connectTo("127.0.0.1:9") + strings.Repeat("a", 60<<10),
		"uploads":     post + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("a", 10<<10),
		"downloads":   get + "\r\n",
		"kept":        get + "\r\n" + get,
	} {
		t.Run(name, func(t *testing.T) {
			raw := strings.ReplaceAll(raw, "PORT", stalledServer(t))
			addr, pid := startFilterProcess(t)
			conns := make([]net.Conn, 0, manyTunnels)
			for range manyTunnels {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conns = append(conns, conn)
				_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
				if _, err := io.WriteString(conn, raw); err != nil {
					t.Fatal(err)
				}
			}
			used := peak(func() int { return residentKiB(t, pid) })
			t.Logf("%d KiB, %d descriptors", used, openFiles(t, pid))
			if used > manyMemory {
				t.Errorf("the filter takes %d KiB, want at most %d", used, manyMemory)
			}
			for _, c := range conns {
				c.Close()
			}
			r := &rig{t: t, addr: addr}
			eventually(t, "a tunnel", func() bool {
				conn := r.dial()
				defer conn.Close()
				_, _ = io.WriteString(conn, connectTo("127.0.0.1:"+echo))
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				_, err := io.ReadFull(conn, make([]byte, len(established)))
				return err == nil
			})
		})
	}
}

// stalledServer begins to answer a GET, reads nothing of a POST, and then waits for
// the end of the test. It returns its port.
func stalledServer(t *testing.T) string {
	release := make(chan struct{})
	port := server(t, func(c *net.TCPConn) {
		method := make([]byte, 4)
		if _, err := io.ReadFull(c, method); err != nil {
			return
		}
		if string(method) == "GET " {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun")
		}
		<-release
	})
	t.Cleanup(func() { close(release) })
	return port
}

// peak waits until a figure grows no more.
func peak(figure func() int) int {
	most := figure()
	for quiet := 0; quiet < 10; quiet++ {
		time.Sleep(50 * time.Millisecond)
		if now := figure(); now > most {
			most, quiet = now, 0
		}
	}
	return most
}

// A response that its server does not go on with ends when its client is gone.
func TestAbandonedResponse(t *testing.T) {
	ended := make(chan struct{})
	port := webServer(t, func(_ string, r *bufio.Reader, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun")
		_, _ = r.ReadByte()
		close(ended)
	})
	r := newRig(t, setup{allow: []string{"127.0.0.1"}})
	conn := r.dial()
	get := "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n"
	_, _ = io.WriteString(conn, get+get) // the next one waits already
	expect(t, conn, "HTTP/1.1 200 OK\r\n")
	reset(conn)
	happens(t, "the end of the connection to the server", ended)
}
