package srt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// commands are what the test binary does inside a sandbox, by $SRT_TEST_COMMAND.
var commands = map[string]func([]string) int{"serve": serveInside, "visit": visitFromInside, "burst": burstInside, "misbehave": misbehaveInside}

// runInside returns a command that runs this binary in the sandbox.
func runInside(t *testing.T, sb *Sandbox, act string, args ...string) *Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := sb.Command(t.Context(), exe, args...)
	cmd.Dir, cmd.Env = workDir(t), append(os.Environ(), "SRT_TEST_COMMAND="+act)
	cmd.Stderr = os.Stderr
	return cmd
}

// serveInside listens on each address, after a pause, says what it is, reads until
// the client is done and sends everything back, upper case.
func serveInside(args []string) int {
	pause, err := time.ParseDuration(args[0])
	if err != nil {
		return 2
	}
	time.Sleep(pause)
	var serving sync.WaitGroup
	for _, address := range args[1:] {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, "serving:", err)
			return 1
		}
		serving.Go(func() { echo(ln) })
	}
	if up := os.Getenv("SRT_TEST_UP"); up != "" {
		_ = os.WriteFile(up, nil, 0o600)
	}
	serving.Wait()
	return 0
}

func echo(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, "served at", ln.Addr())
			if text, err := io.ReadAll(conn); err == nil {
				_, _ = conn.Write(bytes.ToUpper(text))
			}
		}()
	}
}

// visitFromInside connects to each address in turn and prints the first line that
// comes, or why none does.
func visitFromInside(args []string) int {
	for _, address := range args {
		fmt.Println(address, visit(address))
	}
	return 0
}

func visit(address string) string {
	proxied, address, viaProxy := strings.Cut(address, "!")
	if !viaProxy {
		address = proxied
	}
	target := address
	if viaProxy {
		target = "127.0.0.1:3128"
	}
	conn, err := net.DialTimeout("tcp", target, testutil.Patience)
	if err != nil {
		var e syscall.Errno
		errors.As(err, &e)
		return "failed: " + e.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	r := bufio.NewReader(conn)
	if viaProxy {
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", address)
		if status, _ := r.ReadString('\n'); !strings.Contains(status, " 200 ") {
			return strings.TrimSpace(status)
		}
		_, _ = r.ReadString('\n')
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "broken: " + err.Error()
	}
	return strings.TrimSpace(line)
}

// burstInside connects very often at once and prints how many times it was served.
func burstInside(args []string) int {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	served := make(chan bool, count)
	for range count {
		go func() { served <- strings.HasPrefix(visit(args[1]), "served") }()
	}
	n := 0
	for range count {
		if <-served {
			n++
		}
	}
	fmt.Println(n)
	return 0
}

// exchange sends a text to a server of serveInside through a half-closed
// connection and returns what it said and what came back.
func exchange(address, text string) (greeting, back string, err error) {
	conn, err := net.DialTimeout("tcp", address, testutil.Patience)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	go func() {
		_, _ = io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
	}()
	all, err := io.ReadAll(conn)
	greeting, back, _ = strings.Cut(string(all), "\n")
	return greeting, back, err
}

// withBackend runs a test under each backend that can carry it out here.
func withBackend(t *testing.T, f func(t *testing.T, backend string), backends ...string) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			if _, err := exec.LookPath("bwrap"); backend == config.BackendBubblewrap && err != nil {
				t.Skip("bubblewrap is not installed")
			}
			if backend == config.BackendLandlock && inside.LandlockABI() == 0 {
				t.Skip("this kernel has no Landlock")
			}
			f(t, backend)
		})
	}
}
