package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/srt-sandbox/srt/config"
)

// logTarget is where the access log goes: a descriptor that the caller opened, a
// file, or nowhere.
type logTarget struct {
	fd   int
	path string
	file *os.File // a copy of the descriptor
}

func setLog(o *options, v string) error {
	number, isFD := strings.CutPrefix(v, "fd:")
	if !isFD {
		if v == "" {
			return errors.New("reading --log: the value is empty; name a file, or a descriptor as in fd:3")
		}
		o.log = logTarget{path: v}
		return nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n < 1 || strconv.FormatUint(n, 10) != number {
		return fmt.Errorf("reading --log: %q is not a descriptor of 1 or more, as in fd:3 (a file of that name is ./%s)", v, v)
	}
	o.log = logTarget{fd: int(n)}
	return nil
}

// claim checks a descriptor and keeps it from every other process. It comes
// before the first process is started.
func (l *logTarget) claim(controlFD int) (err error) {
	if l.fd == 0 {
		return nil
	}
	if l.fd == controlFD {
		return fmt.Errorf("using --log fd:%d: the descriptor is that of --control-fd", l.fd)
	}
	if l.file, err = claimDescriptor(l.fd); err != nil {
		return fmt.Errorf("using --log fd:%d: %w", l.fd, err)
	}
	return nil
}

// open returns nil where nothing is logged. The settings say where commands can
// have put something in the way.
func (l *logTarget) open(cfg *config.Config) (*os.File, error) {
	if l.fd != 0 || l.path == "" {
		return l.file, nil
	}
	f, err := l.openFile(cfg)
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("opening the access log %s: %w", l.path, err)
	}
	return f, nil
}

func (l *logTarget) openFile(cfg *config.Config) (*os.File, error) {
	// The shell may know the working directory by a link, which nobody planted.
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	path := l.path
	if !filepath.IsAbs(path) {
		path = dir + string(filepath.Separator) + path // ".." follows links, as it does in the kernel
	}
	return openLogFile(path, dir, cfg)
}
