package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// mountBackends are the backends that carry a mount plan out. Whatever a policy
// says must be true with each of them.
var mountBackends = []string{config.BackendNative, config.BackendBubblewrap}

func needBackend(t *testing.T, backend string) {
	t.Helper()
	if backend == config.BackendLandlock && inside.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	if backend != config.BackendBubblewrap {
		return
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
}

// withLinux puts a backend into the section "linux" of the text of settings, which
// comes first if there is one.
func withLinux(settings, backend, more string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(settings), "{")
	if !ok {
		panic("settings without a brace")
	}
	if inner, ok := strings.CutPrefix(rest, `"linux":{`); ok {
		return fmt.Sprintf(`{%s"linux":{"backend":%q,%s`, more, backend, inner)
	}
	return fmt.Sprintf(`{"linux":{"backend":%q},%s%s`, backend, more, rest)
}

// The scripts say what a user sees, which the backend must not change. Those
// about settings files themselves need no second run.
func TestScriptsBubblewrap(t *testing.T) {
	needBackend(t, config.BackendBubblewrap)
	var files []string
	for _, name := range []string{"arguments", "attack", "attack_files", "attack_processes", "crossing", "direct", "exit_status", "git", "home_directories", "isolation", "kernel_trees", "lifecycle",
		"limits", "loopback", "mandatory", "missed", "nested", "ports", "reads", "refusals", "replaced", "signals", "trace", "unguarded", "unix_sockets", "violations", "work", "write_limits", "write_rules"} {
		if name == "limits" && raceEnabled {
			continue // it takes a minute, most of it the processor's
		}
		files = append(files, filepath.Join("testdata", "script", name+".txtar"))
	}
	for _, uid := range users() {
		t.Run(fmt.Sprintf("uid%d", uid), func(t *testing.T) {
			t.Parallel()
			p := scriptParams(t, uid)
			setup := p.Setup
			p.Dir, p.Files = "", files
			p.Setup = func(env *testscript.Env) error {
				if err := chooseBubblewrap(env.WorkDir); err != nil {
					return err
				}
				return setup(env)
			}
			testscript.Run(t, p)
		})
	}
}

// chooseBubblewrap changes the settings files of a script, and makes the one
// for runs without -s.
func chooseBubblewrap(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(`"linux"`)) {
			continue // it is about a backend of its own
		}
		if err := os.WriteFile(name, []byte(withLinux(string(text), config.BackendBubblewrap, "")), 0o644); err != nil {
			return err
		}
	}
	cfg := config.Default()
	cfg.Linux = &config.Linux{Backend: config.BackendBubblewrap}
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, ".srt-settings.json"), text, 0o644)
}

const treeSettings = `{"network":{"allowedDomains":[],"deniedDomains":[]},
 "filesystem":{"denyRead":["hidden","scratch","nested","f","d/secret"],"allowRead":["nested/in/side"],"allowWrite":[".","nested/w"],"denyWrite":["ro","link","d/e/g"]}}`

// look tries names and prints what the kernel says about the command itself.
const look = `umask
for p in hidden scratch nested f d d/secret d/e d/e/g ro link l a nested/in nested/w; do mv $p $p.aside && mv $p.aside $p; rm -d $p.none; done
ls /proc | grep '^[a-z]' | sort | tr '\n' ' '; cat /proc/sys/user/max_user_namespaces /proc/self/setgroups /proc/self/uid_map /proc/self/gid_map /proc/sys/kernel/hostname
ls /proc/self/fd; grep -E '^(Cap|Seccomp|NoNew|Uid|Gid|Groups|Sig(Pnd|Blk|Ign|Cgt)|Umask)' /proc/self/status; cut -d: -f1 /proc/net/dev; ulimit -a`

// survey prints what a program finds out about each path below the current
// directory, about /dev, and about the parts of /proc and /sys that a sandbox
// changes: kind, mode, owner, mount options, what can be read and written.
func survey() {
	show := func(path string) {
		var st unix.Stat_t
		var fs unix.Statfs_t
		err := unix.Lstat(path, &st)
		kind := st.Mode & unix.S_IFMT
		fmt.Printf("%s: %v mode %o owner %d:%d links %d device %x\n", path, err, st.Mode, st.Uid, st.Gid, st.Nlink, st.Rdev)
		// The device nodes are the host's, whose mount options are of no effect.
		if fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW, 0); err == nil && kind != unix.S_IFCHR {
			err := unix.Fstatfs(fd, &fs)
			fmt.Printf("  %v file system %x options %x\n", err, fs.Type, fs.Flags)
			unix.Close(fd)
		}
		for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
			fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			fmt.Printf("  open %d: %v\n", flags, err)
			unix.Close(fd)
		}
		if kind == unix.S_IFREG || kind == unix.S_IFDIR {
			fmt.Printf("  chmod: %v, truncate: %v\n", unix.Chmod(path, st.Mode&0o7777), unix.Truncate(path, st.Size))
		}
		if kind == unix.S_IFDIR {
			entries, err := os.ReadDir(path)
			fmt.Printf("  entries %v %v\n", err, entries)
			made := filepath.Join(path, ".made")
			fmt.Printf("  make: %v %v\n", unix.Mkdir(made, 0o700), unix.Rmdir(made))
		}
	}
	for _, p := range []string{"/", "/sys", "/sys/kernel", "/etc", "/etc/passwd", "/proc/sys", "/proc/sys/kernel", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/sysrq-trigger", "/proc/kcore", "/proc/1/mem"} {
		show(p)
	}
	for _, top := range []string{"/dev", "."} {
		_ = filepath.WalkDir(top, func(p string, _ os.DirEntry, _ error) error { show(p); return nil })
	}
}

// The same plan gives the same sandbox, whoever made the mounts.
func TestSameTree(t *testing.T) {
	needBackend(t, config.BackendBubblewrap)
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			var saw [2]string
			for i, backend := range mountBackends {
				s := newSandboxed(t, uid, withLinux(treeSettings, backend, ""))
				makeTree(t, s)
				cmd := s.command("--violations", "never", "-c", look+"; "+s.binaryCalled("survey"))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v %s", backend, err, out)
				}
				root := filepath.Dir(s.binary)
				saw[i] = strings.ReplaceAll(string(out), root, "ROOT")
			}
			if diff := cmp.Diff(strings.Split(saw[0], "\n"), strings.Split(saw[1], "\n")); diff != "" {
				t.Errorf("native (-) and bubblewrap (+):\n%s", diff)
			}
			if !strings.Contains(saw[0], "hidden: <nil>") || !strings.Contains(saw[0], "f: <nil> mode 100000") || !strings.Contains(saw[0], "mv: cannot move 'd' to 'd.aside': Device or resource busy") {
				t.Errorf("the look saw too little:\n%s", saw[0])
			}
		})
	}
}

func makeTree(t *testing.T, s *sandboxed) {
	t.Helper()
	cmd := s.outside("bash", "-ec", `mkdir -p hidden/x scratch nested/in/side nested/w d/e ro/sub a; for f in hidden/x/s nested/s nested/in/s nested/in/side/r nested/w/f f d/secret d/e/g ro/sub/f a/f; do echo $f > $f; done; ln -s ro link; ln -s a l; mkfifo a/fifo; mkfifo ro/fifo`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// outside is a command of the same user without a sandbox.
func (s *sandboxed) outside(name string, args ...string) *exec.Cmd {
	cmd := s.command()
	path, err := exec.LookPath(name)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, append([]string{name}, args...)
	return cmd
}

// A bwrap that cannot be used stops the run, and nothing replaces it.
func TestBubblewrapRefused(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"missing", "", "using bwrapPath .*: no such file or directory; install bubblewrap there, or correct bwrapPath"},
		{"too old", "#!/bin/sh\necho bubblewrap 0.6.2\n", "0.6.2 is too old; 0.7.0 is the oldest that will do; install bubblewrap 0.7.0 or later"},
		{"something else", "#!/bin/sh\necho hello\n", `it says "hello"`},
		{"failing", "#!/bin/sh\nexit 3\n", "for its version: exit status 3"},
		{"talking", "#!/bin/sh\ntest \"$1\" = --version && exec echo bubblewrap 0.9.0\necho no luck >&2; exit 1\n", "no luck"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSandboxed(t, os.Getuid(), "{}")
			s.expectRefusal(s.fakeBubblewrap(c.script), c.want)
		})
	}
	t.Run("not on PATH", func(t *testing.T) {
		s := newSandboxed(t, os.Getuid(), withLinux(workSettings, config.BackendBubblewrap, ""))
		cmd := s.command("touch", "ran")
		cmd.Env = append(cmd.Env, "PATH="+s.home)
		if out, err := cmd.CombinedOutput(); err == nil || !matches("looking for bwrap on PATH: .*; install bubblewrap, or set bwrapPath", string(out)) {
			t.Errorf("%v, said %q", err, out)
		}
	})
}

func (s *sandboxed) fakeBubblewrap(script string) string {
	s.t.Helper()
	path := filepath.Join(filepath.Dir(s.binary), "fake-bwrap")
	if script != "" {
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	return path
}

// expectRefusal runs a command that must not start.
func (s *sandboxed) expectRefusal(bwrap, want string) {
	s.t.Helper()
	settings := withLinux(workSettings, config.BackendBubblewrap, fmt.Sprintf(`"bwrapPath":%q,`, bwrap))
	if err := os.WriteFile(s.settings, []byte(settings), 0o644); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.command("-c", "touch ran").CombinedOutput()
	if err == nil || !matches(want, string(out)) {
		s.t.Errorf("%v, said %q, want %q", err, out, want)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		s.t.Error("the command ran")
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// editor is a bwrap that changes its options before it obeys them.
const editor = `#!/bin/bash
test "$1" = --version && exec bwrap --version
mapfile -d '' -t w <&4
out=()
for ((i = 0; i < ${#w[@]}; i++)); do
	case "${w[i]} ${w[i+1]}" in
	%s
	esac
	out+=("${w[i]}")
done
exec 4< <(printf '%%s\0' "${out[@]}")
exec bwrap "$@"
`

// srt-init trusts no mount that bwrap reports done.
func TestBubblewrapChecked(t *testing.T) {
	needBackend(t, config.BackendBubblewrap)
	const less, moved = "bwrap left it less restricted than planned", "was replaced or removed while the sandbox was being set up"
	for _, c := range []struct{ name, edit, want string }{
		{"no change", "'--size '*) ;;", ""},
		{"writable base", "'--ro-bind /') w[i]=--bind;;", less},
		{"writable deny", "--ro-bind\\ */ro) w[i]=--bind;;", less},
		{"missing deny", "--ro-bind\\ */ro) ((i += 2)); continue;;", moved},
		{"missing pin", "--ro-bind\\ */d) ((i += 2)); continue;;", moved},
		{"missing cover", "'--size '*) [[ ${w[i+3]} = */hidden ]] && ((i += 3)) && continue;;", moved},
		{"full cover", "'--size '*) [[ ${w[i+3]} = */hidden ]] && out+=(--ro-bind \"${w[i+3]}\") && ((i += 3));;", "w/hidden: bwrap did not empty it"},
		{"another object", "--bind\\ *[0-9]/w) w[i+1]=${w[i+1]%/w}/home;;", moved},
		{"another deny", "--ro-bind\\ */ro) w[i+1]=${w[i+1]%ro}a; w[i+2]=${w[i+1]};;", moved},
		{"missing object", "--ro-bind\\ */ro) w[i+1]=/nowhere;;", "bwrap: Can't find source path /nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSandboxed(t, os.Getuid(), "{}")
			makeTree(t, s)
			fake := s.fakeBubblewrap(fmt.Sprintf(editor, c.edit))
			settings := withLinux(treeSettings, config.BackendBubblewrap, fmt.Sprintf(`"bwrapPath":%q,`, fake))
			if err := os.WriteFile(s.settings, []byte(settings), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := s.command("-c", "touch ran").CombinedOutput()
			_, missing := os.Stat(filepath.Join(s.dir, "ran"))
			switch {
			case c.want == "" && (err != nil || missing != nil):
				t.Errorf("%v %s", err, out)
			case c.want != "" && (err == nil || missing == nil || !matches(c.want, string(out))):
				t.Errorf("%v, said %q, want %q", err, out, c.want)
			}
		})
	}
}

// A set-user-ID bwrap, and one that commands could replace, are not used.
func TestBubblewrapUntrusted(t *testing.T) {
	s := newSandboxed(t, os.Getuid(), "{}")
	fake := s.fakeBubblewrap("#!/bin/sh\ntouch ran\n")
	if err := os.Chmod(fake, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	s.expectRefusal(fake, "it is set-user-ID.*chmod u-s")
	inside := filepath.Join(s.dir, "bwrap")
	if err := os.Rename(fake, inside); err != nil {
		t.Fatal(err)
	}
	s.expectRefusal(inside, "commands may write there.*outside of the write roots")
}

// Killing srt leaves nothing of bwrap, which stands between it and srt-init.
func TestKilledUnderBubblewrap(t *testing.T) {
	needBackend(t, config.BackendBubblewrap)
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			killAtAnyMoment(t, uid, withLinux(workSettings, config.BackendBubblewrap, ""))
		})
	}
}

// Killing bwrap, which stands outside, takes nothing from a command that runs,
// and leaves nothing of one that does not run yet.
func TestBubblewrapOutside(t *testing.T) {
	needBackend(t, config.BackendBubblewrap)
	s := newSandboxed(t, os.Getuid(), withLinux(workSettings, config.BackendBubblewrap, ""))
	for _, delay := range []time.Duration{0, 1, 2, 4, 8, 16, 100} {
		cmd := s.command("-c", "echo started; sleep 0.2; exit 9")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		outside := bubblewrapOf(t, cmd.Process.Pid)
		time.Sleep(delay * time.Millisecond)
		_ = unix.Kill(outside, unix.SIGKILL)
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 9 && (status != 1 || !strings.HasPrefix(out.String(), "Error: setting up the sandbox (")) {
			t.Errorf("after %v ms: status %d, said %q", int(delay), status, out.String())
		}
		if pid := processOf(s.binary); pid != "" {
			t.Errorf("process %s is left", pid)
		}
	}
}

// bubblewrapOf waits for the child of srt that executes bwrap.
func bubblewrapOf(t *testing.T, pid int) (number int) {
	t.Helper()
	testutil.Eventually(t, "bwrap", func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, name := range lists {
			text, _ := os.ReadFile(name)
			for _, child := range strings.Fields(string(text)) {
				line, _ := os.ReadFile("/proc/" + child + "/cmdline")
				if strings.HasPrefix(string(line), "bwrap\x00--unshare-user") {
					number, _ = strconv.Atoi(child)
					return number > 0
				}
			}
		}
		return false
	})
	return number
}
