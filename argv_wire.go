package srt

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch"
)

// What the program that holds a sandbox and the helper that runs a command of it
// say to each other: JSON objects, one a line, over a Unix socket.
//
//	host                      helper
//	greeting ───────────────▶
//	         ◀─────────────── hello      the token of its argv
//	order    ───────────────▶            first what to run, or why not
//	         ◀─────────────── report     …, the last one holds the end
//
// The helper enforces the whole policy itself, with the code of every other run:
// its network filter, its sandbox. So the socket carries no authority beyond that
// of the command, and a host that goes away takes the command with it.

// runProtocol changes with every change of the messages below.
const runProtocol = 1

// runArgument is how an argv calls the helper.
const runArgument = "--srt-run"

// maxMessage bounds one line; a configuration is the largest.
const maxMessage = 32 << 20

// octets is text that need not be UTF-8, as paths and arguments.
type octets string

func (o octets) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(o)) }

func (o *octets) UnmarshalJSON(data []byte) error {
	var b []byte
	err := json.Unmarshal(data, &b)
	*o = octets(b)
	return err
}

func toOctets(list []string) []octets {
	all := make([]octets, 0, len(list))
	for _, s := range list {
		all = append(all, octets(s))
	}
	return all
}

func fromOctets(list []octets) []string {
	all := make([]string, 0, len(list))
	for _, s := range list {
		all = append(all, string(s))
	}
	return all
}

// greeting proves to the host that its peer lives when it answers.
type greeting struct{ Protocol int }

type hello struct {
	Protocol int
	Token    string
}

// order is one thing that the host wants. One field is set.
type order struct {
	Refused string          `json:",omitempty"`
	Run     *assignment     `json:",omitempty"`
	Update  json.RawMessage `json:",omitempty"` // a configuration
	Signal  int             `json:",omitempty"`
	Kill    bool            `json:",omitempty"`
	Answer  *answer         `json:",omitempty"`
}

// assignment is a command and the sandbox that it belongs to.
type assignment struct {
	Config json.RawMessage

	ID           string
	Path, Dir    octets
	Args, Env    []octets
	OwnEnv       bool // Env is meant, even if empty
	AllowDomains []string
	Publish      []config.Publish
	Limits       *config.Limits
	NewSession   bool
	Trace        bool
	NullFD       int

	// Read are the host's variables of environmentRead.
	Read        map[string]octets
	Protected   []octets
	Ask, Access bool
}

// report is one thing that the helper has to say. One field is set.
type report struct {
	Warning   string     `json:",omitempty"`
	Violation *Violation `json:",omitempty"`
	Access    *access    `json:",omitempty"`
	Question  *inquiry   `json:",omitempty"`
	Withdrawn int        `json:",omitempty"` // nobody waits for the answer any more
	Started   *started   `json:",omitempty"`
	Ended     *ended     `json:",omitempty"`
}

// started says that the command runs, and where its published ports are.
type started struct {
	Publish []config.Publish
	Addr    []netip.AddrPort
}

type inquiry struct {
	Number int // from 1
	AskRequest
}

type answer struct {
	Number int
	AskDecision
	Failure string
}

// access is an [Access] with its error as text.
type access struct {
	Access
	Failure string
}

// ended says how the command ended. One of the others is set where it did not run.
type ended struct {
	Status  Status
	Start   *StartError
	Command *CommandError
	Other   string
}

func endOf(err error) *ended {
	e := &ended{}
	var exit *ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		e.Status = exit.Status
	case errors.As(err, &e.Start), errors.As(err, &e.Command):
	default:
		e.Other = err.Error()
	}
	return e
}

func (e *ended) result() (launch.Status, error) {
	switch {
	case e.Start != nil:
		return launch.Status{}, e.Start
	case e.Command != nil:
		return launch.Status{}, e.Command
	case e.Other != "":
		return launch.Status{}, errors.New(e.Other)
	}
	return e.Status, nil
}

// wire is one end of the conversation. Reading and writing are for one goroutine
// each.
type wire struct {
	conn *net.UnixConn
	in   *bufio.Scanner
	out  *json.Encoder
}

func newWire(conn *net.UnixConn) *wire {
	w := &wire{conn: conn, in: bufio.NewScanner(conn), out: json.NewEncoder(conn)}
	w.in.Buffer(nil, maxMessage)
	return w
}

func (w *wire) read(v any) error {
	if !w.in.Scan() {
		if err := w.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(w.in.Bytes(), v)
}

func (w *wire) write(v any) error { return w.out.Encode(v) }

// otherRelease says that host and helper do not understand each other.
func otherRelease(theirs int) error {
	return fmt.Errorf("the program that made the argv and the helper in it are of different releases of srt (protocol %d and %d); name the srt binary of the same release with srt.WithHelper", theirs, runProtocol)
}
