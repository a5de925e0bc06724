package main

import (
	"cmp"
	goflag "flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// The scripts in testdata/script run this test binary as srt. As root every
// script runs twice: as root, and as an ordinary user who owns the script's
// directory and home.

// ordinaryUser is a user number that no account of a test machine has.
const ordinaryUser = 31337

func TestMain(m *testing.M) {
	srt.MaybeExecHelper()
	testscript.Main(waiting{m}, map[string]func(){
		"srt":        main,
		"as":         runAs,
		"container":  container,
		"attack":     attack,
		"probe":      probe,
		"unconfined": unconfined,
		"serve":      serve,
		"flood":      flood,
		"survey":     survey,
		"posix":      posix,
		"peer":       peerClient,
		"goon":       goOn,
		"fresh":      fresh,
		"ticks":      ticks,
		"debugged":   debugged,
		"embed":      embed,
	})
}

// waiting runs more tests at a time than there are processors: most of them wait
// for a shell, a timer or a key most of the time.
type waiting struct{ *testing.M }

func (m waiting) Run() int {
	goflag.Parse()
	chosen := false
	goflag.Visit(func(f *goflag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := goflag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return m.M.Run()
}

// runAs is the script command "as UID PROGRAM ARGUMENT...".
func runAs() {
	uid, err := strconv.Atoi(os.Args[1])
	if err == nil && uid != os.Getuid() {
		err = becomeUser(uid)
	}
	path := ""
	if err == nil {
		path, err = exec.LookPath(os.Args[2])
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "as:", err)
	os.Exit(1)
}

func becomeUser(uid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(uid); err != nil {
		return err
	}
	return syscall.Setuid(uid)
}

func TestScripts(t *testing.T) {
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 {
		uids = append(uids, ordinaryUser)
	}
	for _, uid := range uids {
		t.Run(fmt.Sprintf("uid%d", uid), func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, scriptParams(t, uid))
		})
	}
}

func scriptParams(t *testing.T, uid int) testscript.Params {
	return testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		WorkdirRoot:   openTempDir(t),
		Setup:         func(env *testscript.Env) error { return setupScript(env, uid) },
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"noprocess": noProcess, "diagnosis": checkDiagnosis},
		Condition:     condition,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	}
}

// openTempDir is t.TempDir for other users too: theirs is the work below it.
func openTempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "srt-script")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// setupScript gives the script a home, a temporary directory and a work
// directory, all owned by the user who runs srt.
func setupScript(env *testscript.Env, uid int) error {
	home, work, tmp := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "w"), filepath.Join(env.WorkDir, "tmp")
	for _, dir := range []string{home, work, tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// A port that nobody serves outside, and a number that no other test's processes have.
	port, release, err := testutil.ReservePort()
	if err != nil {
		return err
	}
	env.Defer(release)
	env.Vars = append(env.Vars, "FREE="+port, "MARK="+markNumber(), "HOME="+home, "TMPDIR="+tmp, "UID="+strconv.Itoa(uid), "W="+work, "SETTINGS="+filepath.Join(env.WorkDir, "settings.json"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid", "GIT_CONFIG_NOSYSTEM=1")
	if cache, err := os.UserCacheDir(); err == nil { // for what a script builds outside
		env.Vars = append(env.Vars, "GO_CACHE="+cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")))
	}
	env.Cd = work
	if err := openProgramDir(env.Getenv("PATH")); err != nil {
		return err
	}
	return filepath.Walk(env.WorkDir, func(p string, _ os.FileInfo, err error) error {
		if err != nil || os.Getuid() != 0 {
			return err
		}
		return os.Lchown(p, uid, uid)
	})
}

// openProgramDir lets other users run the programs of the scripts, which
// testscript keeps in a private directory at the start of PATH.
func openProgramDir(path string) error {
	bin, _, _ := strings.Cut(path, string(os.PathListSeparator))
	for _, dir := range []string{bin, filepath.Dir(bin)} {
		if strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir() {
			if err := os.Chmod(dir, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

func condition(cond string) (bool, error) {
	if name, ok := strings.CutPrefix(cond, "have:"); ok {
		_, err := exec.LookPath(name)
		return err == nil, nil
	}
	if cond == "race" {
		return raceEnabled, nil // where everything takes several times as long
	}
	if cond == "ipv6" {
		_, err := os.Stat("/proc/net/if_inet6")
		return err == nil, nil
	}
	if cond == "landlock" {
		return inside.LandlockABI() > 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// noProcess checks that no process of this machine has the text in its command
// line. $MARK in it keeps it from those of other tests.
func noProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: noprocess TEXT")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	for _, name := range lines {
		line, err := os.ReadFile(name)
		if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), args[0]) {
			ts.Fatalf("%s still runs: %q", filepath.Dir(name), line)
		}
	}
}
