package policy

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/protected"
)

// View is what a command sees at a place.
type View uint8

// The views of a place.
const (
	Host   View = iota // the host's object
	Hidden             // an empty directory
	Masked             // an object that cannot be opened
)

// Place is a real path at which the state of the tree changes. What it says
// holds for everything beneath, until a deeper place says otherwise.
type Place struct {
	Path  string // absolute, without symbolic links
	Kind  Kind
	View  View
	Write bool // the command may change it
	// Scratch marks a hidden directory inside a write root: it takes writes and
	// forgets them. Other hidden directories refuse them.
	Scratch  bool
	Dev, Ino uint64
	// Rule decided what is visible, WriteRule what is writable.
	Rule, WriteRule Rule
}

// Pin is an existing directory or symbolic link that must stay where it is,
// because something protected lies beneath or behind it.
type Pin struct {
	Path     string
	Symlink  bool
	Dev, Ino uint64
}

// Absent is a name that must not be created, nor changed where it is there all the same.
type Absent struct {
	Parent string // existing directory, without symbolic links
	Name   string // first missing component
	// Fold compares the name without regard to ASCII case.
	Fold     bool
	Full     string // the protected path that Name leads to
	Dev, Ino uint64 // of Parent
	// Read marks a name that is protected against reading.
	Read bool
	Rule Rule
}

// Kept is a path in a directory that does not exist yet, and that may be made.
type Kept struct {
	Path string
	// Fold compares the path without regard to ASCII case.
	Fold bool
	Rule Rule
}

// Creatable is a missing path that the command may create although the
// directory that would hold it is read-only.
type Creatable struct {
	Path, Parent, First string
	Rule                Rule
}

// Warning is a settings entry that does not do what it seems to.
type Warning struct {
	Setting, Entry, Message string
}

// String is the warning as one line.
func (w Warning) String() string { return w.Setting + " \"" + w.Entry + "\": " + w.Message }

// Policy is the resolved answer to what a command may do with files. It is
// immutable and safe for concurrent use.
//
// The state of a path is that of the nearest place at or above it. Beneath a
// hidden directory only places with the host's view exist; beneath a masked
// object there is nothing.
type Policy struct {
	Places    []Place // parents first; the first is "/"
	Pins      []Pin
	Absent    []Absent
	Kept      []Kept      // must not be created either
	Concealed []Concealed // must stay hidden, parents first
	Creatable []Creatable
	// Standing are the directories in which protected names must not be created
	// although no Absent says so.
	Standing *protected.Directories
	// MaskFiles are the real paths of the files that credentials.files lists
	// with mode "mask". No place stands for them.
	MaskFiles []string
	// Sockets are the Unix sockets of the host that the command may connect to.
	Sockets  []SocketRule
	Warnings []Warning
	// Disabled says that the settings switch file rules off.
	Disabled bool

	fs     FS
	byPath map[string]int // path → index in Places
	// ways are the directories that lead to a place inside a hidden one.
	ways   map[string]bool
	pins   map[string]bool
	absent map[string]Rule // by path
	folded map[string]Rule // by path, ASCII letters of the name in lower case
	// creatable are the missing paths that may be created, toCreatable the
	// missing directories on the way to them.
	creatable, toCreatable map[string]Rule
}

// Input is everything a policy depends on.
type Input struct {
	Config *config.Config
	// Cwd and Home may lead through links; entries that are relative or begin
	// with "~" mean the real directories. An empty Home makes "~" mean nothing.
	Cwd, Home string
	UID       int
	FS        FS
	// Protected files are write-denied under every spelling, existing or not.
	Protected []string
	// ExtraWrite are write roots that srt adds itself. Protected names are not
	// looked for in them.
	ExtraWrite []string
	// Private is one of them that is removed after the run.
	Private string
	// Readable are srt's own files, which stay readable (and read-only) whatever
	// a read deny covers.
	Readable []string
	// HostIdentity says that no user namespace changes how the owners of files
	// look, so that nothing is hidden for its sake.
	HostIdentity bool
	// ScanTimeout bounds every look at the file system together; zero means ten
	// seconds.
	ScanTimeout time.Duration
}

// Error is an entry that cannot be enforced. Nothing runs with it.
type Error struct {
	// Code is one of nul_in_path, link_cycle, unbounded_pattern,
	// unlistable_root, deny_scan_failed, git_metadata_unreadable.
	Code           string
	Setting, Entry string
	Reason         string
	Err            error
}

func (e *Error) Error() string {
	text := "enforcing " + e.Setting
	if e.Entry != "" {
		text += " \"" + e.Entry + "\""
	}
	text += ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// beneath reports whether p is strictly inside dir.
func beneath(dir, p string) bool {
	if dir == "/" {
		return p != "/"
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// within reports whether p is dir or inside it.
func within(dir, p string) bool { return p == dir || beneath(dir, p) }

// fresh reports whether a path lies where every sandbox has file systems of its
// own. No rule acts there.
func fresh(p string) bool { return within("/dev", p) || within("/proc", p) }

// provided reports whether a fresh place may be there in a sandbox, so that nothing
// needs to be said about an entry that allows it. Others of the host's devices and
// what it has in shared memory are in no sandbox.
func provided(p string) bool {
	p = path.Clean(p)
	if !beneath("/dev", p) || p == "/dev/shm" {
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/dev/"), "/")
	return slices.Contains(providedDevices, first)
}

var providedDevices = []string{
	"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "fd", "stdin", "stdout", "stderr", "core",
}

// parentOf returns the directory that holds p; "/" holds itself.
func parentOf(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i <= 0 {
		return "/"
	}
	return p[:i]
}

func baseOf(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

func child(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// lowerASCII folds the letters A to Z. Unlike Unicode folding it never makes two
// different names of a case-sensitive tree equal by accident of the alphabet.
func lowerASCII(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return 'A' <= c && c <= 'Z' }) < 0 {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
