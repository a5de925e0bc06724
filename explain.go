package srt

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/policy"
)

// explained adds to the failure to start a program which rule is in the way: to
// the kernel a hidden program is one that does not exist.
func explained(err error, pol *policy.Policy, dir string, r launch.Request) error {
	var command *CommandError
	if !errors.As(err, &command) || pol == nil {
		return err
	}
	for _, program := range candidates(dir, r) {
		if fi, err := os.Stat(program); err != nil || fi.IsDir() || fi.Mode()&0o111 == 0 {
			continue
		}
		for _, needed := range []string{program, interpreter(program)} {
			if needed == "" {
				continue
			}
			d := pol.Decide(policy.Execute, needed)
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
	f, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	if line, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if words := strings.Fields(string(line)); len(words) > 0 && filepath.IsAbs(words[0]) {
			return words[0]
		}
		return ""
	}
	object, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range object.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		if path, err := io.ReadAll(p.Open()); err == nil {
			return strings.TrimRight(string(path), "\x00")
		}
	}
	return ""
}

// maxDebugPlaces bounds what debug lines list of one policy.
const maxDebugPlaces = 200

// logDecisions says on debug lines what was decided for a command.
func (s *Sandbox) logDecisions(c *Cmd, pol *policy.Policy, m means) {
	log := s.options.logger
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log.Debug("running", "command", c.text(), "directory", m.dir, "home", m.home, "temporary", m.temp.variable())
	cfg := s.config.Load()
	log.Debug("network", "allowed", strings.Join(cfg.Network.AllowedDomains, " "), "denied", strings.Join(cfg.Network.DeniedDomains, " "))
	for i, p := range pol.Places {
		if i == maxDebugPlaces {
			log.Debug("more places", "count", len(pol.Places)-i)
			break
		}
		log.Debug("place", "path", p.Path, "state", placeState(p), "by", placeRule(p))
	}
	for i, a := range pol.Absent {
		if i == maxDebugPlaces {
			log.Debug("more protected names", "count", len(pol.Absent)-i)
			break
		}
		log.Debug("protected name", "path", a.Full, "by", a.Rule.String())
	}
	for _, c := range pol.Creatable {
		log.Debug("may be created", "path", c.Path, "by", c.Rule.String())
	}
}

func placeState(p policy.Place) string {
	switch {
	case p.View == policy.Hidden:
		return "hidden"
	case p.View == policy.Masked:
		return "unreadable"
	case p.Write:
		return "writable"
	}
	return "read-only"
}

func placeRule(p policy.Place) string {
	if p.View == policy.Host && p.WriteRule.Setting != "" {
		return p.WriteRule.String()
	}
	return p.Rule.String()
}
