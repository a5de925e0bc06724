package inside

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Spec is everything that srt-init must know. It travels in a sealed memory
// file, never in arguments or the environment, which other processes can read.
type Spec struct {
	Plan   Plan
	Filter FilterOptions
	// Names are protected names that the guard keeps from being created.
	Names []GuardedName
	// Standing are the directories that keep protected names out, encoded.
	Standing string
	// Concealed are paths at which nothing of the host may show, whoever puts it there.
	Concealed []ConcealedPath
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
	// NullFD is a descriptor number that the command finds open on /dev/null.
	NullFD int
	// HostPorts are ports of this machine's loopback that may be reached inside
	// under the same address.
	HostPorts []int
	// Published are ports of the command's servers that the host half connects to.
	// There the command only ever meets itself.
	Published []int
	// Sockets are the Unix sockets outside that the command may connect to.
	Sockets []SocketRule
	// Limits are set on the command before it runs.
	Limits []ResourceLimit
	// Private is the temporary directory of the run. srt-init removes it when
	// the host half dies first.
	Private string
	// Repositories makes srt-init look at the git repositories that the command
	// made, when it has ended.
	Repositories bool
	// Landlock replaces the plan where there are no namespaces; nil elsewhere.
	Landlock *LandlockSpec
}

// LandlockSpec is what srt-init enforces without namespaces.
type LandlockSpec struct {
	// States say what may be done from a path downwards, until a deeper path
	// says otherwise. The first is that of "/". Without any, files are free.
	States []PathState
	// Pins are directories and links that must stay where they are.
	Pins []string
	// Forwards lead connections to the proxy ports that the command knows to the
	// sockets that the host really listens on.
	Forwards []Forward
	// LocalBinding lets the command listen on ports of this machine.
	LocalBinding bool
}

// PathState is what may be done with a path and everything beneath.
type PathState struct {
	Path          string
	Read, Write   bool
	Missing       bool   // nothing is there yet
	Rule, Cure    string // of the writing part
	ReadRule, Why string // of the reading part, and what would allow it
}

// Forward is one port of 127.0.0.1 and the port that stands for it.
type Forward struct{ Port, Real int }

// GuardedName is a name in an existing directory that must not appear, or only a
// Target, whose directory does not exist yet.
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

// ConcealedPath is a real path that stays hidden. Link is what the symbolic link
// says that may show there, if there is one.
type ConcealedPath struct{ Path, Link string }

// SocketRule admits the sockets at and beneath a real path, or with a pattern
// those beneath it that match.
type SocketRule struct{ Path, Pattern string }

// CreatablePath is an absent path that the command may create although the
// directory that would hold it is read-only.
type CreatablePath struct {
	Path, Parent, First string
}

// File writes the spec into a sealed memory file.
func (s *Spec) File() (*os.File, error) {
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

func readSpec(fd int) (*Spec, error) {
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

// MessageKind is the first byte of each message between the halves: packets on a
// sequenced-packet socket pair, whose text follows. Descriptors travel with the
// packet.
type MessageKind byte

// The kinds of packet, each with its direction.
const (
	// MessageSpec carries the spec's descriptor to srt-init, and that of the
	// cgroup.procs file of the command's cgroup if it has one.
	MessageSpec MessageKind = 'S'
	// MessageReady says that the sandbox stands; it carries the listeners.
	MessageReady MessageKind = 'R'
	// MessageGo lets srt-init start the command.
	MessageGo MessageKind = 'G'
	// MessageSignal passes the signal in the first byte on to the command.
	MessageSignal MessageKind = 'P'
	// MessageFailed carries the reason why the command does not run.
	MessageFailed MessageKind = 'F'
	// MessageNote carries a warning for the user.
	MessageNote MessageKind = 'N'
	// MessageViolation carries one refused operation.
	MessageViolation MessageKind = 'V'
	// MessageRepository carries the path of a first name that may make a
	// repository; MessageChecked says that all of them were looked at.
	MessageRepository MessageKind = 'H'
	MessageChecked    MessageKind = 'D'
	// MessageBlocked carries a part of a new repository that was put out of effect.
	MessageBlocked MessageKind = 'B'
	// MessageRefused carries an operation that a mount refused; the host half
	// knows whether and why the policy wants that.
	MessageRefused MessageKind = 'E'
	// MessageStopped says that the command was stopped by the signal in the first
	// byte; the second is 1 if it was in a process group of its own.
	MessageStopped MessageKind = 'T'
	// MessageConnection announces the local port and address of a connection that
	// srt-init has made for the command.
	MessageConnection MessageKind = 'C'
	// MessageAsk asks whether a connection may be tried; MessageVerdict answers.
	// MessageUnask takes a question back, by its number: nobody waits for the answer.
	MessageAsk     MessageKind = 'A'
	MessageVerdict MessageKind = 'Y'
	MessageUnask   MessageKind = 'U'
	// MessageMissed tells of a connection that leads nowhere: 1 for datagrams, the
	// port and the address.
	MessageMissed MessageKind = 'M'
	// MessageListener carries a listening socket for connections without a proxy.
	MessageListener MessageKind = 'L'
	// MessageSockets asks for unconnected TCP sockets of the sandbox's network, and
	// carries one for each address family back; the first four bytes number the
	// question.
	MessageSockets MessageKind = 'Q'
	// MessagePause stops every process of the sandbox, or with an empty body lets
	// them go on. MessagePaused answers the first with 1 when all of them are
	// stopped; 0 says that they are not, or did not stay so.
	MessagePause  MessageKind = 'Z'
	MessagePaused MessageKind = 'W'
	// MessageKill makes srt-init end everything.
	MessageKill MessageKind = 'K'
	// MessageExit carries the wait status of the command in two bytes, the processor
	// time of it and the children it waited for, in microseconds, and 1 if nothing
	// of the sandbox is left but srt-init, which only ends then.
	MessageExit MessageKind = 'X'
)

const (
	maxMessage     = 16 << 10
	maxDescriptors = 64
)

// SendMessage sends one packet. A body beyond the limit is cut: only texts for
// people can be that long.
func SendMessage(fd int, kind MessageKind, body []byte, descriptors ...int) error {
	return send(fd, kind, body, 0, descriptors)
}

func send(fd int, kind MessageKind, body []byte, flags int, descriptors []int) error {
	var oob []byte
	if len(descriptors) > 0 {
		oob = unix.UnixRights(descriptors...)
	}
	packet := append([]byte{byte(kind)}, body...)
	if len(packet) > maxMessage {
		packet = packet[:maxMessage]
	}
	for {
		err := unix.Sendmsg(fd, packet, oob, nil, unix.MSG_NOSIGNAL|flags)
		if err != unix.EINTR {
			return err
		}
	}
}

// ReceiveMessage returns [io.EOF] when the other half is gone.
func ReceiveMessage(fd int) (MessageKind, []byte, []int, error) {
	buf := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		// The other half may end with packets of ours unread. The kernel tells that
		// once, ahead of what the other half had to say.
		if err == unix.EINTR || err == unix.ECONNRESET {
			continue
		}
		if err != nil {
			return 0, nil, nil, err
		}
		if n == 0 {
			return 0, nil, nil, io.EOF
		}
		fds, err := parseDescriptors(oob[:oobn])
		return MessageKind(buf[0]), buf[1:n], fds, err
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
