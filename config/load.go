package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile bounds a settings file; 10 000 rules need about half a megabyte.
const maxFile = 16 << 20

// Load reads the settings file at path, which may be a pipe. errors.Is tells
// [ErrMissing], [ErrEmpty], [ErrInvalid] and the errors of package fs and the
// system apart. The file is read first and the failure classified afterwards,
// because "missing" is the one failure that a caller may answer with defaults.
func Load(path string) (*Config, []UnknownKey, error) {
	data, err := readAll(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading settings from %s: %w", path, classify(path, err))
	}
	c, unknown, err := Parse(data)
	var invalid *Error
	if errors.As(err, &invalid) {
		invalid.File = path
	} else if err != nil {
		err = fmt.Errorf("reading settings from %s: %w", path, err)
	}
	return c, unknown, err
}

func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return data, err
}

// classify says what a failed read means. A link that points nowhere is a file
// that cannot be read, not a missing one: somebody wanted settings there.
func classify(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the path is named already
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w%s", err, symbol(err))
	}
	if _, linkErr := os.Lstat(path); linkErr == nil {
		return fmt.Errorf("the link points to nothing%s", symbol(err))
	}
	return fmt.Errorf("%w: %w", ErrMissing, err)
}
