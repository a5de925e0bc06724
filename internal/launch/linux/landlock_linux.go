package linux

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

// Landlock confines commands without namespaces, for machines and containers
// that allow none: a Landlock ruleset and a seccomp filter refuse everything
// that srt-init does not do itself for the command.
type Landlock struct{}

// Prepare implements [launch.Launcher].
func (Landlock) Prepare(s launch.Streams) (launch.Sandbox, error) {
	p, err := startInit(s, inside.LandlockName, initEnvironment, &syscall.SysProcAttr{Setpgid: !s.NewSession, Setsid: s.NewSession})
	if err != nil {
		return nil, &launch.StartError{Stage: "start", Text: "starting srt-init: " + err.Error(), Err: err}
	}
	l := &landlocked{process: p, ports: newAnnouncedPorts()}
	p.announced = l.ports.add
	return l, nil
}

// HostIdentity implements [launch.Launcher].
func (Landlock) HostIdentity() bool { return true }

// Limits says what Landlock of this kernel does not confine; empty when nothing
// that namespaces would.
func (Landlock) Limits() string {
	const scopes = 6 // Linux 6.12
	if inside.LandlockABI() < scopes {
		return "this kernel cannot keep the command from signalling other processes of the same user (Linux 6.12 can)"
	}
	return ""
}

// landlocked is a sandbox without namespaces.
type landlocked struct {
	*process
	ports *announcedPorts
}

// Build listens on ports of this machine in the place of the sandbox's own.
func (l *landlocked) Build(ctx context.Context, r launch.Request) ([]net.Listener, error) {
	if r.Unguarded {
		return nil, &launch.StartError{Stage: "guard", Text: "running without the guard: it is what carries the file rules out under the Landlock backend", Cure: `remove linux.guard "off", or use another backend`}
	}
	if len(r.Published) > 0 {
		return nil, &launch.StartError{Stage: "publish", Text: "publishing ports: under the Landlock backend the command has no network of its own, so that a port inside is one of this machine",
			Cure: "use another backend; or set network.allowLocalBinding and connect to the server directly"}
	}
	l.request = r
	stop := context.AfterFunc(ctx, l.Kill)
	defer stop()
	s := landlockSpecFor(r)
	ports := append(slices.Clone(r.Ports), hostPorts(r)...)
	var listeners []net.Listener
	for _, port := range ports {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			closeAll(listeners)
			return nil, &launch.StartError{Stage: "network", Text: "listening on 127.0.0.1: " + err.Error(), Err: err}
		}
		listeners = append(listeners, newPrivateListener(ln, l.ports, port))
		s.Landlock.Forwards = append(s.Landlock.Forwards, inside.Forward{Port: port, Real: ln.Addr().(*net.TCPAddr).Port})
	}
	if _, err := l.send(ctx, s); err != nil {
		closeAll(listeners)
		return nil, err
	}
	for _, ln := range listeners[len(r.Ports):] {
		r.Direct.Serve(ln)
	}
	return listeners[:len(r.Ports)], nil
}

// maxHostPorts bounds the listeners that stand for ports of this machine.
const maxHostPorts = 256

// hostPorts are the ports of this machine's loopback that the command reaches at
// their own address: through the filter, like every connection.
func hostPorts(r launch.Request) []int {
	if r.Direct == nil {
		return nil
	}
	var ports []int
	for _, port := range r.HostPorts {
		if !slices.Contains(r.Ports, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) > maxHostPorts {
		r.Note(fmt.Sprintf("under the Landlock backend only the first %d ports of this machine's loopback can be reached without a proxy", maxHostPorts))
		ports = ports[:maxHostPorts]
	}
	return ports
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		ln.Close()
	}
}

// Kill asks srt-init to end every process: without it they would live on.
func (l *landlocked) Kill() {
	l.mu.Lock()
	gone := l.gone
	if !gone {
		l.killed = true
		_ = inside.SendMessage(l.control, inside.MessageKill, nil)
	}
	l.mu.Unlock()
	if !gone {
		time.AfterFunc(killGrace, func() {
			l.killNow()
			l.awaitExit()
		})
	}
}

// Close ends the sandbox if it still runs and releases everything.
func (l *landlocked) Close() {
	l.Kill()
	<-l.exited
	l.release()
}

// landlockSpecFor translates a request.
func landlockSpecFor(r launch.Request) *inside.Spec {
	s := specFor(r)
	s.Plan, s.Concealed = nil, nil
	// The guard answers for reads there, so it reports them without being asked.
	s.Filter.Guard, s.Filter.NestedNamespaces, s.Filter.Trace = true, false, false
	s.Filter.Direct, s.Filter.HostPorts = false, false
	s.Landlock = &inside.LandlockSpec{LocalBinding: r.LocalBinding}
	if r.Policy.Disabled {
		return s
	}
	for _, p := range r.Policy.Places {
		s.Landlock.States = append(s.Landlock.States, inside.PathState{
			Path: p.Path, Read: p.View == policy.Host, Write: p.Write && p.View == policy.Host,
			Rule: p.WriteRule.String(), Cure: p.WriteRule.Cure, ReadRule: p.Rule.String(), Why: p.Rule.Cure,
		})
	}
	s.Landlock.States = append(s.Landlock.States, missingStates(r.Policy)...)
	for _, pin := range r.Policy.Pins {
		s.Landlock.Pins = append(s.Landlock.Pins, path.Clean(pin.Path))
	}
	return s
}

// missingStates keeps what denyRead names and does not exist yet from being read.
func missingStates(p *policy.Policy) (states []inside.PathState) {
	for _, c := range p.Concealed {
		above := p.StateAt(c.Path)
		if c.Link == "" && above.Path != c.Path {
			states = append(states, inside.PathState{Path: c.Path, Missing: true, Rule: above.WriteRule.String(), Cure: above.WriteRule.Cure, ReadRule: c.Rule.String(), Why: c.Rule.Cure})
		}
	}
	return states
}
