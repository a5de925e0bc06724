package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/tcp"
)

// sockets are those that srt-init made in the sandbox's network namespace.
type sockets struct {
	listeners []net.Listener // of the proxies
	datagrams []*net.UDPConn // for name lookups
	names     []net.Listener // for name lookups over TCP
}

// namePort is the port of DNS.
const namePort = 53

// socketsOf takes descriptors over. On an error all of them are closed.
func socketsOf(fds []int) (*sockets, error) {
	var all sockets
	var failed error
	for _, fd := range fds {
		failed = errors.Join(failed, all.take(fd))
	}
	if failed != nil {
		all.close()
		return nil, &launch.StartError{Stage: "network", Text: "taking the sockets: " + failed.Error(), Err: failed}
	}
	return &all, nil
}

func (s *sockets) take(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		unix.Close(fd)
		return err
	}
	if kind == unix.SOCK_DGRAM {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		conn, err := net.FilePacketConn(f)
		if udp, ok := conn.(*net.UDPConn); ok {
			s.datagrams = append(s.datagrams, udp)
		}
		return err
	}
	ln, err := tcp.FileListener(fd)
	if err != nil {
		return err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok && a.Port == namePort {
		s.names = append(s.names, ln)
	} else {
		s.listeners = append(s.listeners, ln)
	}
	return nil
}

func (s *sockets) close() {
	closeAll(s.listeners)
	closeAll(s.names)
	for _, c := range s.datagrams {
		c.Close()
	}
}

// judge answers srt-init's question about a connection. The answer may take a
// person's time.
func (p *process) judge(body []byte) {
	if len(body) < 6 {
		return
	}
	id, port := body[:4:4], binary.BigEndian.Uint16(body[4:])
	address, ok := netip.AddrFromSlice(body[6:])
	if !ok || p.request.Direct == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.questions[string(id)] = cancel
	p.mu.Unlock()
	go func() {
		defer cancel()
		go func() {
			select {
			case <-p.exited:
				cancel()
			case <-ctx.Done():
			}
		}()
		verdict := byte(0)
		// A listener that stands for nothing would take connections and break them.
		if !(address.IsLoopback() && nothingListens(int(port))) && p.request.Direct.Judge(ctx, netip.AddrPortFrom(address, port)) {
			verdict = 1
		}
		p.mu.Lock()
		delete(p.questions, string(id))
		p.mu.Unlock()
		_ = p.tell(inside.MessageVerdict, append(id, verdict))
	}()
}

// unask ends a question whose asker is gone.
func (p *process) unask(id []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.questions[string(id)]; cancel != nil {
		cancel()
	}
}

// missed passes on which connection led nowhere. Without a server on this machine's
// loopback a port of it was not meant: programs look there for each other.
func (p *process) missed(body []byte) {
	if len(body) < 7 || p.request.Direct == nil {
		return
	}
	port := binary.BigEndian.Uint16(body[1:])
	address, ok := netip.AddrFromSlice(body[3:])
	if !ok || address.IsLoopback() && nothingListens(int(port)) {
		return
	}
	p.request.Direct.Missed(netip.AddrPortFrom(address, port), body[0] == 1)
}

// serveDirect takes a listener over that stands for a server outside.
func (p *process) serveDirect(fds []int) {
	s, err := socketsOf(fds)
	if err != nil {
		return // connections to it fail
	}
	for _, ln := range s.listeners {
		if p.request.Direct == nil {
			ln.Close()
			continue
		}
		p.request.Direct.Serve(ln)
	}
	closeAll(s.names)
}
