package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/srt-sandbox/srt/config"
)

// The sockets that allowUnixSockets names are looked for where they really are;
// a link counts only where no command can have planted it.
func TestSocketRules(t *testing.T) {
	f := newFake(user, "/home/u/w/", "/home/u/run/a.sock", "uid=0 /run/d.sock", "uid=0 /var/run -> /run", "/home/u/planted -> /run/d.sock", "/home/u/w/[1]/s")
	sockets := func(disabled bool, names ...string) ([]SocketRule, string) {
		p := mustResolveFake(t, f, func(in *Input, fs *config.Filesystem) {
			fs.AllowWrite, fs.Disabled = entries("."), disabled
			in.Config.Network.AllowUnixSockets = names
		})
		var said []string
		for _, w := range p.Warnings {
			said = append(said, w.String())
		}
		return p.Sockets, strings.Join(said, "\n")
	}
	for _, c := range []struct {
		entry string
		want  []SocketRule
		warns string
	}{
		{"~/run/a.sock", []SocketRule{{Path: "/home/u/run/a.sock"}}, ""},
		{"~/run", []SocketRule{{Path: "/home/u/run"}}, ""},
		{"/var/run/d.sock", []SocketRule{{Path: "/run/d.sock"}}, ""},
		{"later/s", []SocketRule{{Path: "/home/u/w/later/s"}}, ""},
		{"/run/*.sock", []SocketRule{{Path: "/run", Pattern: "*.sock"}}, ""},
		{"/run/x*/**", []SocketRule{{Path: "/run", Pattern: "x*/**"}}, ""},
		{"[1]/s", []SocketRule{{Path: "/home/u/w", Pattern: "[1]/s"}, {Path: "/home/u/w/[1]/s"}}, ""},
		{"~/planted", nil, "/home/u/planted is a symbolic link that a command could have planted"},
	} {
		for _, disabled := range []bool{false, true} {
			got, said := sockets(disabled, c.entry)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(SocketRule{}, "Rule")); diff != "" {
				t.Errorf("%s, disabled %v (-want +got):\n%s", c.entry, disabled, diff)
			}
			if !strings.Contains(said, c.warns) || c.warns == "" && said != "" {
				t.Errorf("%s: warnings %q, want %q", c.entry, said, c.warns)
			}
		}
	}
}
