package srt

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strings"
	"time"
)

const sshProxyTimeout = 60 * time.Second

// sshProxy connects ssh to a host through the sandbox's HTTP proxy: standard
// input and output become the connection. The host comes from a repository's
// configuration, so nothing but a plain name or address and a number pass.
func sshProxy(host, port string) int {
	if !plain(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") {
		fmt.Fprintln(os.Stderr, "sandbox proxy: bad host")
		return 1
	}
	if !plain(port, "0123456789") {
		fmt.Fprintln(os.Stderr, "sandbox proxy: bad port")
		return 1
	}
	conn, rest, answer := dialSSH(net.JoinHostPort(host, port))
	if conn == nil {
		fmt.Fprintf(os.Stderr, "sandbox proxy: %s:%s: %s\n", host, port, answer)
		return 1
	}
	relaySSH(conn, rest)
	return 0
}

func plain(s, allowed string) bool {
	return s != "" && strings.Trim(s, allowed) == ""
}

// dialSSH opens the tunnel. A nil connection comes with the proxy's answer.
func dialSSH(target string) (*net.TCPConn, *bufio.Reader, string) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", httpPort), sshProxyTimeout) // the name localhost may not be known inside
	if err != nil {
		return nil, nil, "no answer"
	}
	_ = conn.SetDeadline(time.Now().Add(sshProxyTimeout))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	r := bufio.NewReader(conn)
	head := textproto.NewReader(r)
	status, err := head.ReadLine()
	if err != nil {
		return nil, nil, "no answer"
	}
	if _, err := head.ReadMIMEHeader(); err != nil {
		return nil, nil, "no answer"
	}
	_, status, _ = strings.Cut(status, " ")
	if !strings.HasPrefix(status, "200") {
		conn.Close()
		return nil, nil, status
	}
	_ = conn.SetDeadline(time.Time{})
	return conn.(*net.TCPConn), r, ""
}

// relaySSH copies until the remote side ends. The end of standard input is
// passed on, so that the remote's last words still arrive.
func relaySSH(conn *net.TCPConn, rest io.Reader) {
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, rest)
}
