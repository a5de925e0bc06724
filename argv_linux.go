package srt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Helpers call at an abstract Unix socket: it has no file that could be replaced
// or left behind, it belongs to the network namespace, which sandboxed commands do
// not share, and its name is not to be guessed. Both ends ask the kernel who the
// other one is.

const doorPrefix = "@srt-"

// listenForHelpers returns the listener, and its address in one word without the
// letters that separate words.
func listenForHelpers() (*net.UnixListener, string, error) {
	name := rand.Text()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: doorPrefix + name, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	return ln, strconv.Itoa(os.Getpid()) + "." + name, nil
}

// callHost connects to the process that made an argv and returns the token for
// it. After the end of that process somebody else could listen at its address.
func callHost(word string) (*net.UnixConn, string, error) {
	parts := strings.Split(word, ".")
	if len(parts) != 3 {
		return nil, "", errors.New("it is not complete")
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: doorPrefix + parts[1], Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("the program that made it has ended or its sandbox is closed, or this process has another network namespace: %w", err)
	}
	cred, err := peerCredentials(conn)
	if err == nil && (int(cred.Uid) != os.Geteuid() || strconv.Itoa(int(cred.Pid)) != parts[0]) {
		err = errors.New("the program that made it runs as another user or in another container, or has ended")
	}
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, parts[2], nil
}

func peerCredentials(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, failed
}

// peer is the process at the other end. Once it has answered, pidfd means it.
type peer struct{ pidfd int }

func openPeer(conn *net.UnixConn) (*peer, error) {
	cred, err := peerCredentials(conn)
	if err != nil {
		return nil, err
	}
	if int(cred.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("refused a process of user %d", cred.Uid)
	}
	pidfd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if err != nil {
		return nil, err
	}
	return &peer{pidfd: pidfd}, nil
}

func (p *peer) kill()  { _ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) }
func (p *peer) close() { unix.Close(p.pidfd) }
