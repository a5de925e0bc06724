package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

// The oracle test draws trees and settings, asks the policy what should happen
// to every path, and lets a program inside a real sandbox find out.

// probe reads "operation path" lines and prints the name of the error of each,
// or "ok". It leaves the tree as it was.
func probe() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		op, path, _ := strings.Cut(lines.Text(), " ")
		err := map[string]func(string) error{"read": probeRead, "write": probeWrite, "create": probeCreate, "link": probeLink, "remove": probeRemove}[op](path)
		var e syscall.Errno
		switch {
		case err == nil:
			fmt.Println("ok")
		case errors.As(err, &e):
			fmt.Println(unix.ErrnoName(e))
		default:
			fmt.Println(err)
		}
	}
}

func probeRead(path string) error {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		_, err := os.ReadDir(path)
		return err
	}
	_, err := os.ReadFile(path)
	return err
}

func probeWrite(path string) error {
	fi, err := os.Stat(path)
	if err == nil && fi.IsDir() {
		return os.Chmod(path, fi.Mode().Perm())
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func probeCreate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(path)
}

func probeLink(path string) error {
	if err := os.Symlink("x", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func probeRemove(path string) error {
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return os.Rename(aside, path)
}

// world is a drawn tree: directories, files and links below the work directory.
var (
	worldDirs  = []string{"a", "a/b", "a/b/c", "d", "d/e"}
	worldFiles = []string{"f", "a/f", "a/b/f", "a/b/c/f", "d/f", "d/e/f", "d/e/g"}
	worldLinks = map[string]string{"l": "a/b", "d/k": "../a/b/c/f"}
	worldNew   = []string{"n", "a/n", "a/b/n", "a/b/c/n", "d/n", "d/e/n",
		".idea", "a/.vscode", "a/b/.vscode", "a/b/.NPMrc", "a/b/c/.npmrc", "d/.claude", "d/e/.envrc"}
)

func makeWorld(t *rapid.T, dir string, uid int) {
	for _, d := range worldDirs {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, f := range worldFiles {
		must(t, os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644))
	}
	for l, target := range worldLinks {
		if err := os.Symlink(target, filepath.Join(dir, l)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	must(t, filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
		if err != nil || os.Getuid() != 0 {
			return err
		}
		return os.Lchown(p, uid, uid)
	}))
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func drawEntries(t *rapid.T, label string, most int) []config.PathEntry {
	choices := append(append([]string{"."}, worldDirs...), worldFiles...)
	switch label {
	case "allowRead":
		choices = append(choices, "a/*")
	case "denyWrite", "denyRead":
		choices = append(choices, "l", "d/k", "n", "a/n", "a/b/n/deep", "a/*", "**/f")
	}
	drawn := rapid.SliceOfN(rapid.SampledFrom(choices), 0, most).Draw(t, label)
	all := []config.PathEntry{}
	for _, p := range drawn {
		all = append(all, config.PathEntry{Path: p})
	}
	return all
}

func TestOracle(t *testing.T) {
	for _, backend := range append(slices.Clone(mountBackends), config.BackendLandlock) {
		for _, uid := range users() {
			t.Run(fmt.Sprint(backend, "/uid", uid), func(t *testing.T) {
				needBackend(t, backend)
				if backend == config.BackendLandlock && inside.LandlockABI() == 0 {
					t.Skip("this kernel has no Landlock")
				}
				s := newSandboxed(t, uid, "{}")
				rapid.Check(t, func(rt *rapid.T) { checkOracle(rt, s, backend) })
			})
		}
	}
}

func checkOracle(t *rapid.T, s *sandboxed, backend string) {
	makeWorld(t, s.dir, s.uid)
	cfg := config.Default()
	cfg.Linux = &config.Linux{Backend: backend}
	cfg.Filesystem.AllowWrite = drawEntries(t, "allowWrite", 3)
	cfg.Filesystem.DenyWrite = drawEntries(t, "denyWrite", 3)
	cfg.Filesystem.DenyRead = drawEntries(t, "denyRead", 3)
	cfg.Filesystem.AllowRead = drawEntries(t, "allowRead", 2)
	text, err := json.Marshal(cfg)
	must(t, err)
	must(t, os.WriteFile(s.settings, text, 0o644))
	pol, err := policy.Resolve(t.Context(), policy.Input{Config: cfg, Cwd: s.dir, Home: s.home, UID: s.uid, FS: policy.OSFS(), Protected: []string{s.settings}, HostIdentity: backend == config.BackendLandlock})
	must(t, err)
	asks, want := questions(pol, s.dir)
	if backend == config.BackendLandlock {
		asks, want = withoutMounts(pol, s.dir, asks, want)
	}
	asks, want = append(asks, "read /etc/passwd"), append(want, "ok") // never an empty list
	cmd := s.command("--violations", "never", s.probeBinary())
	cmd.Stdin = strings.NewReader(strings.Join(asks, "\n"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the probe: %v %s\nsettings %s", err, errs.String(), text)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d answers to %d questions: %q", len(got), len(want), out)
	}
	for i := range got {
		if got[i] != want[i] && !(want[i] == refused && got[i] != "ok") {
			t.Errorf("%s: the sandbox says %s, the policy %s\nsettings %s", asks[i], got[i], want[i], text)
		}
	}
}

// questions asks about every path of the world, and what the policy answers.
func questions(p *policy.Policy, dir string) (asks, want []string) {
	ask := func(name string, op policy.Op, path string) {
		d := p.Decide(op, path)
		answer := d.Errno
		if d.Allow {
			answer = "ok"
		}
		asks, want = append(asks, name+" "+path), append(want, answer)
	}
	for _, n := range append(append([]string{}, worldDirs...), worldFiles...) {
		path := filepath.Join(dir, n)
		if vanished(p, path) {
			continue
		}
		ask("read", policy.Read, path)
		ask("write", policy.Write, path)
		ask("remove", policy.Remove, path)
	}
	for _, n := range worldNew {
		if path := filepath.Join(dir, n); !vanished(p, path) && !vanished(p, filepath.Dir(path)) {
			ask("create", policy.Create, path)
			ask("link", policy.Link, path)
		}
	}
	return asks, want
}

// refused is the answer of which the error does not matter.
const refused = "refused"

// withoutMounts turns the answers into those of Landlock: it gives errors of its
// own, hides nothing in memory, and keeps what is hidden in its place.
func withoutMounts(p *policy.Policy, dir string, asks, want []string) ([]string, []string) {
	for i, ask := range asks {
		op, path, _ := strings.Cut(ask, " ")
		if op == "create" || op == "link" {
			path = filepath.Dir(path)
		}
		hidden := p.StateAt(path).View == policy.Hidden
		if want[i] != "ok" || hidden {
			want[i] = refused
		}
	}
	for _, n := range slices.Concat(worldDirs, worldFiles) {
		if path := filepath.Join(dir, n); vanished(p, path) {
			for _, op := range []string{"read ", "write ", "remove "} {
				asks, want = append(asks, op+path), append(want, refused)
			}
		}
	}
	return asks, want
}

// vanished reports whether a path lies inside a hidden directory, where its
// name does not exist and the questions have no object.
func vanished(p *policy.Policy, path string) bool {
	s := p.StateAt(path)
	return s.View == policy.Hidden && s.Path != path
}

// probeBinary is the test binary under the name that makes it a probe.
func (s *sandboxed) probeBinary() string { return s.binaryCalled("probe") }

// binaryCalled is the test binary under the name of another of its programs.
func (s *sandboxed) binaryCalled(name string) string {
	path := filepath.Join(filepath.Dir(s.binary), name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.Link(s.binary, path); err != nil {
		s.t.Fatal(err)
	}
	return path
}
