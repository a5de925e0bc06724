package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Directories that were there keep protected names out on every file system, and
// under every path that a mount of the host gives them.
func TestStandingDirectoriesOnMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct{ mount, try, refused string }{
		"a second mount, deeper than the search": {"mkdir -p p/sub x/y/z/q/again && mount --bind p x/y/z/q/again",
			"cd x/y/z/q/again; echo x > sub/.npmrc; mkdir .vscode", "sub/.npmrc .vscode"},
		"tmpfs": {"mkdir t && mount -t tmpfs t t && mkdir -p t/sub",
			"cd t; mkdir .vscode; echo x > sub/.npmrc; mv sub moved; echo x > moved/.npmrc", ".vscode sub/.npmrc moved/.npmrc"},
		// The shell's directory has no path any more that leads to it.
		"between write roots": {"mkdir t && mount -t tmpfs t t && mkdir -p t/a t/b/sub t/b/lib/in",
			`cd t/a; b=$PWD/../b; mkdir n l; cd n; rmdir $b/sub; mv -T ../n $b/sub; mkdir .vscode; cd $b/../a/l; rm -r $b/lib; mv -T ../l $b/lib; ln -s / in; cd $b/../a`, ".vscode 'in'"},
		// A write makes another directory of the lower one.
		"overlay": {"mkdir -p low/sub up work o && mount -t overlay o -o lowerdir=low,upperdir=up,workdir=work o",
			"cd o; mkdir .vscode; echo x > sub/x; echo x > sub/.npmrc", ".vscode sub/.npmrc"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := workSettings
			if name == "between write roots" {
				settings = strings.Replace(settings, `["."]`, `["t/a","t/b"]`, 1)
			}
			s := newSandboxed(t, 0, settings)
			cmd := s.command("-c", c.try+"; mkdir -p new/.vscode && echo made")
			cmd.Args = append([]string{"unshare", "-m", "sh", "-c", "mount --make-rprivate / && " + c.mount + ` || exit 77; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
			cmd.Path = unshare
			said, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() == 77 {
				t.Skipf("mounting: %s", said)
			}
			if err != nil || !strings.Contains(string(said), "made\n") {
				t.Errorf("%v: %s", err, said)
			}
			for _, path := range strings.Fields(c.refused) {
				if !regexp.MustCompile(regexp.QuoteMeta(path) + "[’']?: Operation not permitted").Match(said) {
					t.Errorf("%s was made: %s", path, said)
				}
			}
		})
	}
}
