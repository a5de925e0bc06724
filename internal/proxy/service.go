package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// service is one listener with the connections that came from it and those
// that were made for them. They end together: when a command's listener closes,
// nobody is left to read them.
type service struct {
	s      *Session
	ln     net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	slots  chan struct{} // one for each connection
	busy   chan struct{} // one for each whose messages are being read or passed on
	// grace is how long connections may last when the listener was closed.
	grace time.Duration

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil when the service has ended
}

func (s *Session) begin(ln net.Listener) (*service, error) {
	v := &service{s: s, ln: ln, slots: s.slots, busy: make(chan struct{}, maxBusy), open: map[net.Conn]struct{}{}}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		v.end()
		return nil, net.ErrClosed
	}
	s.services[v] = struct{}{}
	s.serving.Add(1)
	return v, nil
}

// handler serves a connection. What is long and needs no more than a small stack
// it may return, to be run afterwards.
type handler func(*service, net.Conn) (next func())

// serve hands each connection of a listener to a goroutine. When it returns, all
// of them have ended.
func (s *Session) serve(ln net.Listener, handle handler) error {
	v, err := s.begin(ln)
	if err != nil {
		return err
	}
	return v.serve(handle)
}

func (v *service) serve(handle handler) error {
	s := v.s
	defer func() {
		v.awaitConnections()
		v.end()
		v.wait.Wait()
		s.mu.Lock()
		delete(s.services, v)
		s.mu.Unlock()
		s.serving.Done()
	}()
	for {
		conn, err := v.ln.Accept()
		switch {
		case err == nil:
			v.start(conn, handle)
		case v.ctx.Err() == nil && isPassing(err):
			time.Sleep(s.waits.accept)
		default:
			return err
		}
	}
}

// isPassing recognises failures to accept that end by themselves, such as a
// full descriptor table.
func isPassing(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout() || isResourceShortage(err)
}

// start serves a connection, or closes it when too many are open.
func (v *service) start(conn net.Conn, handle handler) {
	select {
	case v.slots <- struct{}{}:
	default:
		v.s.o.Logger.Warn("too many connections; refusing one", "limit", cap(v.slots))
		conn.Close()
		return
	}
	v.wait.Add(1)
	v.s.workers.do(func() { v.handle(conn, handle) })
}

func (v *service) handle(conn net.Conn, handle handler) {
	var next func()
	if v.hold(conn) {
		v.s.safely(func() { next = handle(v, conn) })
	}
	if next == nil {
		v.finish(conn)
		return
	}
	go func() {
		defer v.finish(conn)
		v.s.safely(next)
	}()
}

func (v *service) finish(conn net.Conn) {
	v.release(conn)
	<-v.slots
	v.wait.Done()
}

// safely keeps a mistake in the handling of one connection from ending the
// whole process, which may be somebody's program. The connection is denied.
func (s *Session) safely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.Error("serving a connection: please report this", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// hold ties a connection to the service, and closes it when the service has
// already ended.
func (v *service) hold(conn net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		conn.Close()
		return false
	}
	v.open[conn] = struct{}{}
	return true
}

func (v *service) release(conn net.Conn) {
	v.mu.Lock()
	delete(v.open, conn)
	v.mu.Unlock()
	conn.Close()
}

// awaitConnections lets connections end by themselves for a moment.
func (v *service) awaitConnections() {
	if v.grace == 0 {
		return
	}
	done := make(chan struct{})
	go func() { v.wait.Wait(); close(done) }()
	timer := time.NewTimer(v.grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-v.ctx.Done():
	}
}

// end closes the listener and every connection, and cancels what is under way.
func (v *service) end() {
	v.ln.Close()
	v.cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	for conn := range v.open {
		conn.Close()
	}
	v.open = nil
}

// External is a proxy at a port of this machine's loopback that does all
// filtering itself.
type External struct {
	Port    int
	Setting string // that names it
}

// ServeForward relays every connection of a listener to an external proxy. It
// ends like Serve. What the command asks that proxy for is not looked at: Access
// is told where the bytes went and how many.
func (s *Session) ServeForward(ln net.Listener, to External, who Invocation) error {
	return s.serve(ln, func(v *service, conn net.Conn) func() {
		return func() { v.forward(conn, to, who) }
	})
}

func (v *service) forward(conn net.Conn, to External, who Invocation) {
	const host = "127.0.0.1"
	s := v.s
	a := Access{
		Time: time.Now(), Protocol: ProtocolExternal, Host: host, Port: to.Port, Via: ProtocolExternal, Allowed: true, Rule: to.Setting,
		Command: who.Command, CommandID: who.ID,
	}
	defer func() {
		if a.Duration = time.Since(a.Time); s.o.Access != nil {
			s.o.Access(a)
		}
	}()
	ctx, cancel := context.WithTimeout(v.ctx, s.waits.dial)
	defer cancel()
	var upstream net.Conn
	if upstream, a.Err = s.o.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(to.Port))); a.Err != nil {
		s.o.Logger.Debug("connecting to the external proxy", "setting", to.Setting, "error", a.Err)
		s.warnOnce(to.Setting, fmt.Sprintf("connecting to the external proxy (%s): %v; connections of commands end at once (check that the proxy runs, and the port)", to.Setting, a.Err))
		return
	}
	if !v.hold(upstream) {
		a.Err = errClientLeft
		return
	}
	defer v.release(upstream)
	a.Address = upstream.RemoteAddr().String()
	a.Sent, a.Received = s.relay(conn, upstream, nil, nil)
}
