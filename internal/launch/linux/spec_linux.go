package linux

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// spec is everything that srt-init must know. It travels in a sealed memory
// file, never in arguments or the environment, which other processes can read.
type spec struct {
	Plan   Plan
	Filter FilterOptions
	// Names are protected names that the guard keeps from being created.
	Names []GuardedName
	// Paths that an allowWrite entry names and that do not exist yet.
	Creatable []CreatablePath

	Path string
	Args []string
	Env  []string
	Dir  string
	// Home is where the command starts when Dir is hidden from it.
	Home string
	// Ports get a listener on each loopback address; the descriptors go to the host.
	Ports []int
	// Private is the temporary directory of the run. srt-init removes it when
	// the host half dies first.
	Private string
}

// GuardedName is a name in an existing directory that must not appear.
type GuardedName struct {
	Dir      string
	Dev, Ino uint64
	Name     string
	// Fold compares names without regard to ASCII case.
	Fold bool
	// Exists marks a name that has an object, protected by a mount. The guard
	// holds the name even if a process of the host replaces the object, which
	// takes the mount away.
	Exists bool
	// Rule and Cure explain a refusal to a person.
	Rule, Cure string
	// Target is the protected path that Name leads to.
	Target string
}

// CreatablePath is an absent path that the command may create although the
// directory that would hold it is read-only.
type CreatablePath struct {
	Path, Parent, First string
}

// file writes the spec into a sealed memory file.
func (s *spec) file() (*os.File, error) {
	fd, err := unix.MemfdCreate("srt-spec", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("creating the launch spec: %w", err)
	}
	f := os.NewFile(uintptr(fd), "srt-spec")
	if _, err := f.Write(s.encode()); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing the launch spec: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing the launch spec: %w", err)
	}
	return f, nil
}

func readSpec(fd int) (*spec, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("reading the launch spec: %w", err)
	}
	data := make([]byte, st.Size)
	for done := 0; done < len(data); {
		n, err := unix.Pread(fd, data[done:], int64(done))
		if err != nil || n == 0 {
			return nil, fmt.Errorf("reading the launch spec: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
		done += n
	}
	return decodeSpec(data)
}

// The messages between the halves are packets on a sequenced-packet socket
// pair: one kind byte, then the text. Descriptors travel with the packet.
type messageKind byte

const (
	// messageSpec carries the spec's descriptor to srt-init.
	messageSpec messageKind = 'S'
	// messageReady says that the sandbox stands; it carries the listeners.
	messageReady messageKind = 'R'
	// messageGo lets srt-init start the command.
	messageGo messageKind = 'G'
	// messageFailed carries the reason why the command does not run.
	messageFailed messageKind = 'F'
	// messageNote carries a warning for the user.
	messageNote messageKind = 'N'
	// messageViolation carries one refused operation.
	messageViolation messageKind = 'V'
	// messageStopped says that the command was stopped by the signal in the first byte.
	messageStopped messageKind = 'T'
	// messageExit carries the wait status of the command.
	messageExit messageKind = 'X'
)

const (
	maxMessage     = 16 << 10
	maxDescriptors = 64
)

func sendMessage(fd int, kind messageKind, body []byte, descriptors ...int) error {
	var oob []byte
	if len(descriptors) > 0 {
		oob = unix.UnixRights(descriptors...)
	}
	packet := append([]byte{byte(kind)}, body...)
	if len(packet) > maxMessage {
		packet = packet[:maxMessage]
	}
	for {
		err := unix.Sendmsg(fd, packet, oob, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// receiveMessage returns io.EOF when the other half is gone.
func receiveMessage(fd int) (messageKind, []byte, []int, error) {
	buf := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, nil, nil, err
		}
		if n == 0 {
			return 0, nil, nil, io.EOF
		}
		fds, err := parseDescriptors(oob[:oobn])
		return messageKind(buf[0]), buf[1:n], fds, err
	}
}

func parseDescriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, errors.Join(errors.New("reading descriptors"), err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

// specFor translates a request. The policy states what must hold; the plan and
// the guarded names are its two halves.
func specFor(r launch.Request) *spec {
	names := guardedNames(r.Policy)
	s := &spec{
		Plan:   NewPlan(r.Policy),
		Filter: FilterOptions{UnixSockets: r.UnixSockets, NestedNamespaces: r.NestedNamespaces},
		Names:  names,
		Path:   r.Path, Args: r.Args, Env: r.Env, Dir: r.Dir, Home: r.Home, Ports: r.Ports, Private: r.Private,
	}
	for _, c := range r.Policy.Creatable {
		s.Creatable = append(s.Creatable, CreatablePath{Path: c.Path, Parent: c.Parent, First: c.First})
	}
	s.Filter.Guard = len(s.Names) > 0 || len(s.Creatable) > 0
	return s
}

// guardedNames lists every protected name that a mount alone does not hold: the
// missing ones, and the existing ones, whose mount goes away when a process of
// the host replaces the object.
func guardedNames(p *policy.Policy) []GuardedName {
	var names []GuardedName
	for _, a := range p.Absent {
		names = append(names, GuardedName{Dir: a.Parent, Dev: a.Dev, Ino: a.Ino, Name: a.Name, Fold: a.Fold,
			Rule: a.Rule.String(), Cure: a.Rule.Cure, Target: a.Full})
	}
	return names
}
