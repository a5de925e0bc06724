package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const evilRepository = `git init -q d; git -C d config core.fsmonitor 'touch /nowhere'; trap '' TERM HUP INT; touch ready; while :; do sleep 1; done`

// However a run ends, the repositories are looked at.
func TestNewRepositoriesOfEndedRuns(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		ends := map[string]func(cmd *exec.Cmd){
			"srt killed": func(cmd *exec.Cmd) { _ = cmd.Process.Kill() },
			"asked twice": func(cmd *exec.Cmd) {
				_ = cmd.Process.Signal(unix.SIGTERM)
				time.Sleep(100 * time.Millisecond)
				_ = cmd.Process.Signal(unix.SIGTERM)
			},
			"out of time": func(*exec.Cmd) {},
		}
		for name, end := range ends {
			s := newSandboxed(t, uid, repositorySettings(backend, false))
			for limit := 2; !s.has("ready"); limit *= 4 { // on a busy machine the time may be over too soon
				options := []string{"-c", evilRepository}
				if name == "out of time" {
					options = append([]string{"--limit", fmt.Sprintf("wall-time=%ds", limit)}, options...)
				}
				cmd := s.command(options...)
				cmd.Env = s.gitEnvironment()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() { defer close(ended); _ = cmd.Wait() }()
				waitFor(t, func() bool { return s.has("ready") || isClosed(ended) })
				end(cmd)
				<-ended
				if name != "out of time" && !s.has("ready") {
					t.Fatalf("%s: the command ended by itself", name)
				}
			}
			// Where srt was killed srt-init looks alone, and srt does not wait for it.
			mended := func() bool {
				text, err := os.ReadFile(filepath.Join(s.dir, "d/.git/config"))
				return err == nil && !strings.Contains(string(text), "fsmonitor") && s.has("d/.git/config.srt-blocked")
			}
			if name == "srt killed" {
				waitFor(t, mended)
			}
			if !mended() {
				t.Errorf("%s: the configuration is as the command left it", name)
			}
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A clone over HTTP is a repository like others.
func TestCloneOverHTTP(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for _, uid := range users() {
		s := newSandboxed(t, uid, "{}")
		s.host("git init -q src && git -C src commit -q --allow-empty -m first && git clone -q --bare src r.git && git -C r.git update-server-info")
		server := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
		defer server.Close()
		settings := fmt.Sprintf(`{"network":{"allowedDomains":[%q],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`, strings.TrimPrefix(server.URL, "http://"))
		if err := os.WriteFile(s.settings, []byte(settings), 0o644); err != nil {
			t.Fatal(err)
		}
		out, said := s.git("git clone -q "+server.URL+"/r.git c && git -C c log --format=%s", "--violations", "always")
		if out != "first\n" || said != "" {
			t.Errorf("%q, %q", out, said)
		}
	}
}

// Where nobody could look at a new repository, the report says so.
func TestNewRepositoriesUnchecked(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	for _, uid := range users() {
		s := newSandboxed(t, uid, repositorySettings("native", false))
		cmd := s.command("--violations", "always", "-c", evilRepository)
		cmd.Env = s.gitEnvironment()
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return s.has("ready") })
		if killed := killChildren(t, cmd.Process.Pid); killed == 0 {
			_ = cmd.Process.Kill()
			t.Skip("this kernel does not list children")
		}
		_ = cmd.Wait()
		if want := "deny repository " + s.dir + "/d/.git ("; !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "look at their hooks") {
			t.Errorf("%s", said.String())
		}
	}
}

// killChildren kills the children of a process, whichever thread made them.
func killChildren(t *testing.T, parent int) (killed int) {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err == nil {
				err = unix.Kill(pid, unix.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	return killed
}

// The look at new repositories reaches nothing that the command could not change.
func TestNewRepositoriesContained(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		s := newSandboxed(t, uid, repositorySettings(backend, false))
		// A victim without a HEAD looks as if it had been prepared by a command.
		s.host(`cd $HOME; mkdir -p v/objects v/refs v/hooks closed; printf '[core]\n\tpager = x\n' > v/config; echo > v/hooks/update; chmod 755 v/hooks/update; chmod 0 closed`)
		victim := s.home + "/v"
		_, said := s.git(strings.ReplaceAll(`repo() { mkdir -p $1/objects $1/refs; echo 'ref: refs/heads/main' > $1/HEAD; }
			repo a; echo VICTIM > a/commondir
			repo b; ln -s VICTIM/config b/config; ln -s VICTIM/hooks b/hooks
			repo c; mkdir c/hooks; ln -s VICTIM/hooks/update c/hooks/update
			repo d; echo VICTIM/../closed > d/commondir
			repo e; printf '[core]\n\tworktree = VICTIM\n\tbare = false\n' > e/config`, "VICTIM", victim), "--violations", "always")
		got := s.host("cd $HOME; stat -c '%n %a' closed v/config v/hooks v/hooks/update; ls v v/hooks; cat v/config")
		if want := "closed 0\nv/config 644\nv/hooks 755\nv/hooks/update 755\nv:\nconfig\nhooks\nobjects\nrefs\n\nv/hooks:\nupdate\n[core]\n\tpager = x\n"; got != want {
			t.Errorf("the victim: %s\n%s", got, said)
		}
		for _, name := range []string{"b/config", "b/hooks", "c/hooks/update", "d/commondir", "e/config"} {
			if !s.has(name+".srt-blocked") || !strings.Contains(said, s.dir+"/"+name+" (") {
				t.Errorf("%s is not blocked: %s", name, said)
			}
		}
	})
}

// A file system that somebody mounted at one of the names stays as it is.
func TestNewRepositoriesAroundMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	s := newSandboxed(t, 0, repositorySettings("native", false))
	disk := filepath.Join(s.home, "disk")
	if err := errors.Join(os.MkdirAll(disk, 0o755), os.WriteFile(filepath.Join(disk, "photo"), []byte("precious"), 0o644), os.MkdirAll(filepath.Join(s.dir, "d/.git/hooks"), 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("--violations", "always", "-c", "echo > d/.git/config")
	cmd.Args = append([]string{"unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount --bind "$1" d/.git/hooks || exit 77; shift; exec "$@"`, "sh", disk, cmd.Path}, cmd.Args[1:]...)
	var err error
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("mounting: %s", said)
	}
	if err != nil || !strings.Contains(string(said), "d/.git/hooks (part of a repository that is still to be made: it could not be renamed: device or resource busy") {
		t.Errorf("%v: %s", err, said)
	}
	if _, err := os.Lstat(filepath.Join(disk, "photo")); err != nil {
		t.Error(err)
	}
}
