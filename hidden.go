package srt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// Statuses of a program that cannot be started, as in shells.
const statusNotExecutable, statusNotFound = 126, 127

// explained adds to the failure to start a program what is in the way: to the
// kernel a hidden program is one that does not exist, and so is one whose
// interpreter does not.
func explained(err error, pol *policy.Policy, dir string, r launch.Request) error {
	var command *CommandError
	if !errors.As(err, &command) || pol == nil {
		return err
	}
	for _, program := range candidates(dir, r) {
		fi, err := os.Stat(program)
		if err == nil && fi.IsDir() && command.Status == statusNotExecutable && strings.ContainsRune(r.Path, '/') {
			return &CommandError{Status: command.Status, Text: command.Text + " (it is a directory)"}
		}
		if err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 { // opening a FIFO waits
			continue
		}
		for _, needed := range []string{program, interpreter(program)} {
			if needed == "" {
				continue
			}
			d := pol.Decide(policy.Execute, needed)
			if _, err := os.Stat(needed); d.Allow && errors.Is(err, fs.ErrNotExist) && command.Status == statusNotFound {
				return &CommandError{Status: command.Status, Text: fmt.Sprintf("%s (it needs %q, which does not exist)", command.Text, needed)}
			}
			if d.Allow || d.Rule.Setting == "" {
				continue
			}
			text := command.Text + " (" + d.Rule.String() + " hides " + needed
			if needed != program {
				text += ", which it needs"
			}
			if d.Rule.Cure != "" {
				text += "; " + d.Rule.Cure
			}
			return &CommandError{Status: command.Status, Text: text + ")"}
		}
	}
	return err
}

// candidates are the paths at which the kernel or a shell would look for the
// program.
func candidates(dir string, r launch.Request) []string {
	if strings.ContainsRune(r.Path, '/') {
		if !filepath.IsAbs(r.Path) {
			return []string{filepath.Join(dir, r.Path)}
		}
		return []string{r.Path}
	}
	search := ""
	for _, kv := range r.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	var all []string
	for _, in := range filepath.SplitList(search) {
		if filepath.IsAbs(in) {
			all = append(all, filepath.Join(in, r.Path))
		}
	}
	return all
}

// interpreter is the program that the kernel starts in the place of another one;
// empty for none.
func interpreter(program string) string {
	f, err := os.OpenFile(program, os.O_RDONLY|syscall.O_NONBLOCK, 0) // by now it may be a FIFO
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if words := strings.FieldsFunc(string(line), isBlank); len(words) > 0 && filepath.IsAbs(words[0]) {
			return words[0]
		}
		return ""
	}
	return elfInterpreter(f, head)
}

// isBlank is what the kernel splits that line at; a carriage return is part of the
// name.
func isBlank(r rune) bool { return r == ' ' || r == '\t' }

// elfInterpreter reads the dynamic loader's path from the program headers of a
// 64-bit little-endian ELF file, see elf(5). Package debug/elf does as much and
// would make every start of a process a little longer.
func elfInterpreter(f io.ReaderAt, head []byte) string {
	const (
		headerSize, programHeaderSize = 64, 56
		programInterpreter            = 3
		maxHeaders                    = 64
	)
	if len(head) < headerSize || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) {
		return ""
	}
	le := binary.LittleEndian
	table, count := int64(le.Uint64(head[32:])), int64(le.Uint16(head[56:]))
	for i := range min(count, maxHeaders) {
		header := make([]byte, programHeaderSize)
		if _, err := f.ReadAt(header, table+i*programHeaderSize); err != nil {
			return ""
		}
		if le.Uint32(header) != programInterpreter {
			continue
		}
		path := make([]byte, min(le.Uint64(header[32:]), 4096))
		if _, err := f.ReadAt(path, int64(le.Uint64(header[8:]))); err != nil {
			return ""
		}
		return strings.TrimRight(string(path), "\x00")
	}
	return ""
}
