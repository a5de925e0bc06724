package srt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/job"
	"github.com/srt-sandbox/srt/internal/violation"
)

// helper runs the command of an argv in the place of the process that was started
// with it.
type helper struct {
	w     *wire
	relay *job.Relay

	mu        sync.Mutex // of writing
	over      bool       // the command has ended, and the host may go
	lost      error      // why the command was killed, if nobody asked for that
	asked     int
	questions map[int]chan answer
}

// runForHost does what an argv says and returns the status to exit with. more are
// the words behind it.
func runForHost(word string, more []string) int {
	h := &helper{questions: map[int]chan answer{}}
	ctx, cancel := context.WithCancelCause(context.Background())
	h.relay = job.NewRelay(cancel)
	defer h.relay.Stop()
	a, err := h.call(ctx, word)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: running a sandboxed command for another program: "+err.Error())
		return 1
	}
	err = h.run(ctx, cancel, a, more)
	return h.exit(err)
}

// exit says why nothing ran, if nothing did.
func (h *helper) exit(err error) int {
	var exit *ExitError
	var command *CommandError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		h.sayLost()
		status := h.relay.Status(exit.Status)
		if status == job.Interrupted {
			return job.DieInterrupted()
		}
		return status
	case errors.As(err, &command):
		fmt.Fprintln(os.Stderr, "srt: "+violation.Escape(command.Text))
		return command.Status
	}
	fmt.Fprintln(os.Stderr, "Error: "+violation.Escape(err.Error()))
	return 1
}

// call asks the host what to run.
func (h *helper) call(ctx context.Context, word string) (*assignment, error) {
	conn, token, err := callHost(word)
	if err != nil {
		return nil, fmt.Errorf("the argv cannot be used: %w", err)
	}
	// A host that is stopped says nothing, and a signal is to end the wait.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	h.w = newWire(conn)
	var g greeting
	if err := h.w.read(&g); err != nil {
		return nil, fmt.Errorf("hearing from the program that made the argv: %w", err)
	}
	if err := h.w.write(hello{Protocol: runProtocol, Token: token}); err != nil {
		return nil, fmt.Errorf("answering the program that made the argv: %w", err)
	}
	if g.Protocol != runProtocol {
		return nil, otherRelease(g.Protocol)
	}
	var o order
	if err := h.w.read(&o); err != nil {
		return nil, fmt.Errorf("hearing from the program that made the argv: %w", err)
	}
	if o.Run == nil {
		return nil, fmt.Errorf("the argv cannot be used: %s", o.Refused)
	}
	return o.Run, nil
}

// run is the command from its start to its end. Without the host nothing runs.
func (h *helper) run(ctx context.Context, cancel context.CancelCauseFunc, a *assignment, more []string) error {
	sb, err := h.sandbox(ctx, a)
	if err != nil {
		h.say(report{Ended: endOf(err)})
		return err
	}
	defer sb.Close()
	cmd := a.command(ctx, sb, more)
	go h.obey(sb, cmd, cancel)
	err = cmd.Start()
	if err == nil {
		h.relay.Attach(cmd)
		h.say(report{Started: published(cmd)})
		err = cmd.Wait()
	}
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.say(report{Ended: endOf(err)})
	return err
}

// sandbox is the host's, made again in this process.
func (h *helper) sandbox(ctx context.Context, a *assignment) (*Sandbox, error) {
	cfg, _, err := config.Parse(a.Config)
	if err != nil {
		return nil, err
	}
	all := []Option{
		WithWarnings(func(text string) { h.say(report{Warning: text}) }),
		WithProtectedFiles(fromOctets(a.Protected)...),
		func(o *options) {
			o.lookup = func(name string) (string, bool) { v, ok := a.Read[name]; return string(v), ok }
			o.record = func(v Violation) { h.say(report{Violation: &v}) }
		},
	}
	if a.Ask {
		all = append(all, WithAsk(h.ask))
	}
	if a.Access {
		all = append(all, WithAccess(h.access))
	}
	return New(ctx, cfg, all...)
}

func (a *assignment) command(ctx context.Context, sb *Sandbox, more []string) *Cmd {
	cmd := sb.Command(ctx, string(a.Path))
	cmd.id, cmd.Args, cmd.Dir = a.ID, append(fromOctets(a.Args), more...), string(a.Dir)
	if a.OwnEnv {
		cmd.Env = fromOctets(a.Env)
	}
	cmd.AllowDomains, cmd.Publish, cmd.Limits = a.AllowDomains, a.Publish, a.Limits
	cmd.NewSession, cmd.Trace, cmd.NullFD = a.NewSession, a.Trace, a.NullFD
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// obey follows the host until it is gone, which ends the command.
func (h *helper) obey(sb *Sandbox, cmd *Cmd, cancel context.CancelCauseFunc) {
	for {
		var o order
		if err := h.w.read(&o); err != nil {
			h.lose(cmd, cancel, errors.New("the program that holds the sandbox has ended, and with it the command"))
			return
		}
		switch {
		case o.Update != nil:
			cfg, _, err := config.Parse(o.Update)
			if err == nil {
				err = sb.Update(cfg)
			}
			if err != nil { // running on under rules that were replaced would be worse
				h.lose(cmd, cancel, fmt.Errorf("updating the settings of a running command: %w", err))
			}
		case o.Signal != 0:
			_ = cmd.Signal(syscall.Signal(o.Signal))
		case o.Kill:
			h.end(cmd, cancel, errors.New("killed by the program that holds the sandbox"))
		case o.Answer != nil:
			h.answered(*o.Answer)
		}
	}
}

// end kills the command, or ends its start. The end of the context would ask a
// running command to end, which it could do in its own way.
func (h *helper) end(cmd *Cmd, cancel context.CancelCauseFunc, why error) {
	if errors.Is(cmd.Kill(), ErrNotStarted) {
		cancel(why)
	}
}

// lose is end for a reason that whoever started the command should hear.
func (h *helper) lose(cmd *Cmd, cancel context.CancelCauseFunc, why error) {
	h.mu.Lock()
	if !h.over {
		h.lost = why
	}
	h.mu.Unlock()
	h.end(cmd, cancel, why)
}

func (h *helper) sayLost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		fmt.Fprintln(os.Stderr, "Error: "+violation.Escape(h.lost.Error()))
	}
}

func published(cmd *Cmd) *started {
	s := &started{}
	for _, p := range cmd.Published() {
		s.Publish, s.Addr = append(s.Publish, p.Publish), append(s.Addr, p.Addr)
	}
	return s
}

// say tells the host something. If it is gone, the command soon is as well.
func (h *helper) say(r report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.w.write(r)
}

// access reports a decision about a connection.
func (h *helper) access(a Access) {
	wired := &access{Access: a, Failure: a.Failure()}
	wired.Err = nil
	h.say(report{Access: wired})
}

// ask puts a question to the host and waits for the answer.
func (h *helper) ask(ctx context.Context, q AskRequest) (AskDecision, error) {
	reply := make(chan answer, 1)
	h.mu.Lock()
	h.asked++
	number := h.asked
	h.questions[number] = reply
	h.mu.Unlock()
	h.say(report{Question: &inquiry{Number: number, AskRequest: q}})
	select {
	case a := <-reply:
		if a.Failure != "" {
			return AskDecision{}, errors.New(a.Failure)
		}
		return a.AskDecision, nil
	case <-ctx.Done():
		h.forget(number)
		h.say(report{Withdrawn: number})
		return AskDecision{}, ctx.Err()
	}
}

func (h *helper) answered(a answer) {
	if reply := h.forget(a.Number); reply != nil {
		reply <- a
	}
}

func (h *helper) forget(number int) chan answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	reply := h.questions[number]
	delete(h.questions, number)
	return reply
}
