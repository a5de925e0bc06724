package srt

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// helloTimeout is how long a helper may take to say which command it is to run.
const helloTimeout = 10 * time.Second

// acceptPause is how long to wait after an error that may pass.
const acceptPause = 20 * time.Millisecond

// door is where helpers call. It exists from the first argv on.
type door struct {
	ln      *net.UnixListener
	address string
	serving sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]*remote // by token
	called  map[*remote]bool
}

// expect opens the door, if it is not yet, and registers a command. The word that
// leads to it holds where the door is and a secret that works once.
func (s *Sandbox) expect(c *Cmd) (string, *run, error) {
	d, err := s.openDoor()
	if err != nil {
		return "", nil, err
	}
	token := rand.Text()
	r := &remote{s: s, cmd: c, token: token, task: s.assignment(c), wake: make(chan struct{}, 1)}
	r.run = &run{box: r, published: &publishing{}, done: make(chan struct{})}
	d.mu.Lock()
	d.waiting[token] = r
	d.mu.Unlock()
	stops := []func() bool{context.AfterFunc(c.ctx, r.expire), context.AfterFunc(s.ctx, r.Kill)}
	r.release = func() {
		for _, stop := range stops {
			stop()
		}
	}
	go func() {
		<-r.run.done
		r.release()
		s.running.Done()
	}()
	return d.address + "." + token, r.run, nil
}

func (s *Sandbox) openDoor() (*door, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.door != nil {
		return s.door, nil
	}
	ln, address, err := listenForHelpers()
	if err != nil {
		return nil, fmt.Errorf("srt: listening for the programs that start commands: %w", err)
	}
	d := &door{ln: ln, address: address, waiting: map[string]*remote{}, called: map[*remote]bool{}}
	s.door = d
	d.serving.Go(func() { d.accept(s) })
	return d, nil
}

func (d *door) accept(s *Sandbox) {
	for {
		conn, err := d.ln.AcceptUnix()
		switch {
		case err == nil:
			d.serving.Go(func() { d.receive(s, conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptor is free, for example, which passes
			s.options.logger.Debug("accepting a helper", "error", err)
			time.Sleep(acceptPause)
		}
	}
}

// close lets nobody in any more and waits for those who are.
func (d *door) close() {
	if d == nil {
		return
	}
	d.ln.Close()
	d.serving.Wait()
}

// receive talks to one helper until it is gone.
func (d *door) receive(s *Sandbox, conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	peer, err := openPeer(conn)
	if err != nil {
		s.options.logger.Debug("a helper called", "error", err)
		return
	}
	defer peer.close()
	w := newWire(conn)
	var said hello
	if err := errors.Join(w.write(greeting{runProtocol}), w.read(&said)); err != nil {
		s.options.logger.Debug("a helper called", "error", err)
		return
	}
	var r *remote
	if said.Protocol == runProtocol {
		r = d.take(said.Token)
	}
	if r == nil {
		_ = w.write(order{Refused: "it was run before, or its command or sandbox has ended"})
		return
	}
	stop() // from here on the end of the sandbox is an order
	_ = conn.SetDeadline(time.Time{})
	r.converse(w, peer)
	d.mu.Lock()
	delete(d.called, r)
	d.mu.Unlock()
}

// take hands the command of a token out, once. From then on updates reach it.
func (d *door) take(token string) *remote {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.waiting[token]
	if r == nil {
		return nil
	}
	delete(d.waiting, token)
	d.called[r] = true
	r.assign()
	return r
}

// withdraw reports whether nobody had run the argv and nobody can any more.
func (d *door) withdraw(r *remote) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	waited := d.waiting[r.token] == r
	delete(d.waiting, r.token)
	return waited
}

// update passes a new configuration on to the helpers. s.mu is held, so that
// they get updates in order.
func (d *door) update(cfg *config.Config) error {
	if d == nil {
		return nil
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.called {
		r.tell(order{Update: data})
	}
	return nil
}

// remote is a command that a helper runs.
type remote struct {
	s       *Sandbox
	cmd     *Cmd
	token   string
	task    *assignment
	run     *run
	release func()

	mu     sync.Mutex
	orders []order
	wake   chan struct{} // holds a token while there are orders
	peer   *peer
	ended  bool
}

// assign makes what to run, under the configuration of this moment, the first order.
func (r *remote) assign() {
	cfg, err := json.Marshal(r.s.config.Load())
	if err != nil {
		r.tell(order{Refused: err.Error()})
		return
	}
	r.task.Config = cfg
	r.tell(order{Run: r.task})
}

// assignment is a copy of what a command is now, without the configuration.
func (s *Sandbox) assignment(c *Cmd) *assignment {
	a := &assignment{
		ID: c.id, Path: octets(c.Path), Dir: octets(c.Dir), Args: toOctets(c.Args), Env: toOctets(c.Env), OwnEnv: c.Env != nil,
		AllowDomains: slices.Clone(c.AllowDomains), Publish: slices.Clone(c.Publish), NewSession: c.NewSession, Trace: c.Trace, NullFD: c.NullFD,
		Read: map[string]octets{}, Protected: toOctets(s.protectedFiles()), Ask: s.options.ask != nil, Access: s.access != nil,
	}
	if c.Limits != nil {
		limits := *c.Limits
		a.Limits = &limits
	}
	for _, name := range environmentRead {
		if v, ok := s.options.lookup(name); ok {
			a.Read[name] = octets(v)
		}
	}
	return a
}

// tell queues an order. It does not wait: a helper may be stopped for hours, like
// any job of a terminal.
func (r *remote) tell(o order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Update != nil { // only the newest counts
		r.orders = slices.DeleteFunc(r.orders, func(old order) bool { return old.Update != nil })
	}
	r.orders = append(r.orders, o)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *remote) next() []order {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.orders
	r.orders = nil
	return all
}

// converse passes orders and takes reports until the command has ended or the
// helper is gone.
func (r *remote) converse(w *wire, p *peer) {
	r.mu.Lock()
	r.peer = p
	r.mu.Unlock()
	gone := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			for _, o := range r.next() {
				if w.write(o) != nil {
					return
				}
			}
			select {
			case <-r.wake:
			case <-gone:
				return
			}
		}
	})
	status, err := r.listen(w)
	close(gone)
	w.conn.Close()
	sending.Wait()
	r.mu.Lock()
	r.ended, r.peer = true, nil
	r.mu.Unlock()
	r.finish(status, err)
}

// listen handles reports up to the last one.
func (r *remote) listen(w *wire) (launch.Status, error) {
	questions := newQuestions(r)
	defer questions.close()
	for {
		var rep report
		if err := w.read(&rep); err != nil {
			if err != io.EOF {
				r.s.options.logger.Debug("listening to a helper", "error", err)
			}
			return launch.Status{}, ErrHelperLost
		}
		switch {
		case rep.Warning != "":
			r.s.options.warn(rep.Warning)
		case rep.Violation != nil:
			rep.Violation.CommandID = r.cmd.id
			r.s.events.Add(*rep.Violation)
		case rep.Access != nil && r.s.access != nil:
			r.s.access(rep.Access.restored(r.cmd.id))
		case rep.Question != nil:
			questions.ask(*rep.Question)
		case rep.Withdrawn != 0:
			questions.withdraw(rep.Withdrawn)
		case rep.Started != nil:
			r.cmd.setPublished(rep.Started)
		case rep.Ended != nil:
			return rep.Ended.result()
		}
	}
}

func (a *access) restored(id string) Access {
	a.CommandID = id
	if a.Failure != "" {
		a.Access.Err = errors.New(a.Failure)
	}
	return a.Access
}

func (c *Cmd) setPublished(s *started) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.published = &publishing{}
	for i, p := range s.Publish {
		if i < len(s.Addr) {
			c.run.published.ports = append(c.run.published.ports, Published{Publish: p, Addr: s.Addr[i]})
		}
	}
}

func (r *remote) finish(status launch.Status, err error) {
	r.run.status, r.run.err = status, err
	close(r.run.done)
}

// expire ends a command whose context ended.
func (r *remote) expire() {
	if r.s.door.withdraw(r) {
		r.finish(launch.Status{}, context.Cause(r.cmd.ctx))
		return
	}
	r.s.interrupt(r.cmd, r.run)
}

// Kill ends the command. A helper that does not obey is killed, and with it what
// it runs.
func (r *remote) Kill() {
	if r.s.door.withdraw(r) {
		err := ErrWithdrawn
		if r.s.ctx.Err() != nil {
			err = ErrClosed
		}
		r.finish(launch.Status{}, err)
		return
	}
	r.tell(order{Kill: true})
	time.AfterFunc(defaultWaitDelay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.peer != nil {
			r.peer.kill()
		}
	})
}

// Signal reaches the command through its helper.
func (r *remote) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	r.mu.Lock()
	called, ended := r.peer != nil, r.ended
	r.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("srt: cannot send the signal %v", sig)
	case ended:
		return os.ErrProcessDone
	case !called:
		return ErrNotStarted
	}
	r.tell(order{Signal: int(n)})
	return nil
}
