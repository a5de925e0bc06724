package config

import (
	"errors"
	"strings"
)

// What is wrong with a settings file as a whole; test with errors.Is.
var (
	ErrMissing = errors.New("no such settings file")
	ErrEmpty   = errors.New("the settings file is empty")
	ErrInvalid = errors.New("the settings are invalid")
)

// Issue is one thing wrong with the settings.
type Issue struct {
	// Path is the dotted path of the value, with array indexes; "(root)" is the
	// whole object.
	Path string
	// Code is one of required, type, null, nonempty, range, enum, format,
	// unknown, duplicate, conflict.
	Code    string
	Message string
}

// String returns path and message.
func (i Issue) String() string { return i.Path + ": " + i.Message }

// Error lists everything that is wrong with settings. It matches [ErrInvalid].
type Error struct {
	// File is empty for settings that did not come from a file.
	File   string
	Issues []Issue
}

func (e *Error) Error() string {
	parts := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		parts[i] = issue.String()
	}
	text := "invalid settings: " + strings.Join(parts, "; ")
	if e.File != "" {
		text = "invalid settings in " + e.File + ": " + strings.Join(parts, "; ")
	}
	return text
}

// Is makes every Error an [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// UnknownKey is a key that srt does not know. It has no effect.
type UnknownKey struct {
	// Path is the dotted path of the key, Nearest the known key of the same
	// object that is spelled most like it, or the dotted path of the one of that
	// name in another object, or empty.
	Path, Nearest string
}
