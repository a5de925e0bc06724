package linux

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

func TestBubblewrapArguments(t *testing.T) {
	const capabilities = `--info-fd 5
--cap-drop ALL
--cap-add CAP_SYS_ADMIN
--cap-add CAP_NET_ADMIN
--cap-add CAP_SYS_PTRACE
--cap-add CAP_SETPCAP
--cap-add CAP_SYS_RESOURCE
--cap-add CAP_DAC_OVERRIDE
--cap-add CAP_KILL
--cap-add CAP_NET_BIND_SERVICE
--cap-add CAP_SETFCAP
`
	for _, c := range []struct {
		name string
		plan inside.Plan
		want string
	}{
		{"rules", inside.Plan{
			{Kind: inside.OpPin, Path: "/w/.git", Dir: true},
			{Kind: inside.OpPin, Path: "/w/link", Symlink: true},
			{Kind: inside.OpBase, Path: "/"},
			{Kind: inside.OpHideDir, Path: "/h", Dir: true, Nested: true},
			{Kind: inside.OpBind, Path: "/h/x/y/keep", Dir: true},
			{Kind: inside.OpBind, Path: "/h/x/z", Write: true, Dir: true},
			{Kind: inside.OpBind, Path: "/h/x/z/ro", Dir: true},
			{Kind: inside.OpBind, Path: "/w", Write: true, Dir: true},
			{Kind: inside.OpHideFile, Path: "/w/.env"},
			{Kind: inside.OpBind, Path: "/w/.git/hooks", Dir: true},
			{Kind: inside.OpHideDir, Path: "/w/--size", Dir: true, Write: true},
			{Kind: inside.OpHideDir, Path: "/x", Dir: true},
		}, `--ro-bind / /
--dev-bind /dev /dev
--ro-bind /w/.git /w/.git
--size 67108864
--tmpfs /h
--perms 0755
--dir /h/x
--perms 0755
--dir /h/x/y
--ro-bind /h/x/y/keep /h/x/y/keep
--bind /h/x/z /h/x/z
--ro-bind /h/x/z/ro /h/x/z/ro
--bind /w /w
--ro-bind /w/.git/hooks /w/.git/hooks
--size 67108864
--tmpfs /w/--size
--tmpfs /x
--remount-ro /h
--remount-ro /x
`},
		{"everything writable", inside.Plan{{Kind: inside.OpBase, Path: "/", Write: true}}, `--bind / /
--ro-bind-try /sys /sys
--dev-bind /dev /dev
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			words, err := bubblewrapArguments(c.plan)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(capabilities+c.want, optionLines(words)); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

// optionLines writes one option with its values a line.
func optionLines(words []string) string {
	values := map[string]int{"--bind": 2, "--ro-bind": 2, "--ro-bind-try": 2, "--dev-bind": 2}
	var b strings.Builder
	for len(words) > 0 {
		n := max(1, values[words[0]]) + 1
		b.WriteString(strings.Join(words[:n], " ") + "\n")
		words = words[n:]
	}
	return b.String()
}

func TestBubblewrapArgumentsLimit(t *testing.T) {
	plan := inside.Plan{{Kind: inside.OpBase, Path: "/"}}
	for i := range 3000 {
		plan = append(plan, inside.Op{Kind: inside.OpBind, Path: fmt.Sprint("/d", i)})
	}
	_, err := bubblewrapArguments(plan)
	var start *launch.StartError
	if !errors.As(err, &start) || !strings.Contains(err.Error(), "9000 at most") {
		t.Errorf("got %v", err)
	}
}

// What every user of the machine can read says nothing of the rules.
func TestBubblewrapCommandLine(t *testing.T) {
	const want = "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup --as-pid-1 --new-session --args 4 -- /proc/self/fd/6 srt-init"
	if got := strings.Join(namespaceWords(true), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(namespaceWords(false), " "); got != strings.Replace(want, " --new-session", "", 1) {
		t.Errorf("got %s", got)
	}
	for _, c := range inside.Capabilities {
		if capabilityNames[c] == "" {
			t.Errorf("capability %d has no name", c)
		}
	}
}

func TestBubblewrapVersion(t *testing.T) {
	for text, want := range map[string]string{
		"bubblewrap 0.7.0\n":       "",
		"bubblewrap 0.11.1\n":      "",
		"bubblewrap 1.0\n":         "",
		"bubblewrap 0.8.0-rc1\n":   "",
		"bubblewrap 0.6.9\n":       "0.6.9 is too old; 0.7.0 is the oldest that will do",
		"bubblewrap 0.4.1 extra\n": "0.4.1 is too old",
		"":                         `it says ""`,
		"bwrap 1.2.3":              `it says "bwrap 1.2.3"`,
	} {
		if got := versionProblem([]byte(text)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
