package policy

import (
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
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

// Absent is a name that must not be created.
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
// immutable.
type Policy struct {
	Places    []Place // parents first; the first is "/"
	Pins      []Pin
	Absent    []Absent
	Creatable []Creatable
	Warnings  []Warning
	// Disabled says that the settings switch file rules off.
	Disabled bool

	fs      FS
	byPath  map[string]int
	missing map[string]int // parent + "/" + name → index in Absent
}

// Input is everything a policy depends on.
type Input struct {
	Config *config.Config
	Cwd    string // real path
	Home   string
	UID    int
	FS     FS
	// Protected files are write-denied under every spelling, existing or not.
	Protected []string
	// ExtraWrite are write roots that srt adds itself.
	ExtraWrite []string
	// ScanTimeout bounds the search for protected names; zero means ten seconds.
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
