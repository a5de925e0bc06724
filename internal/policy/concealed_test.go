package policy

import (
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// What stays hidden by its path: hidden places, missing ones and the links that
// lead to them, but nothing in a directory that is hidden as a whole, nothing that
// allowRead names as well, and nothing that srt hides for another reason.
func TestConcealed(t *testing.T) {
	tree := []string{"/home/u/w/.env", "/home/u/w/keys/k", "/home/u/w/t/f", "/home/u/w/link -> t", "/home/u/w/a.pem", "/home/u/w/keys/a.pem", "/etc/ssh/ssh_config.d/x"}
	for _, c := range []struct {
		denyRead, allowRead []string
		want                string
	}{
		{nil, nil, ""},
		{[]string{".env", "keys"}, nil, "/home/u/w/.env /home/u/w/keys"},
		{[]string{"keys", "keys/k", "keys/missing"}, nil, "/home/u/w/keys"},
		{[]string{"late", "missing/dir/file"}, nil, "/home/u/w/late /home/u/w/missing/dir/file"},
		{[]string{"late"}, []string{"late"}, ""},
		{[]string{"link/f"}, nil, "/home/u/w/link=t /home/u/w/t/f"},
		{[]string{"link/late"}, nil, "/home/u/w/link=t /home/u/w/t/late"},
		{[]string{"*.pem"}, nil, "/home/u/w/a.pem"},
		{[]string{"/dev/late", "/proc/self"}, nil, ""},
	} {
		p := mustResolveFake(t, newFake(user, tree...), func(_ *Input, fs *config.Filesystem) {
			fs.AllowWrite, fs.DenyRead, fs.AllowRead = entries("."), entries(c.denyRead...), entries(c.allowRead...)
		})
		var got []string
		for _, path := range p.Concealed {
			text := path.Path
			if path.Link != "" {
				text += "=" + path.Link
			}
			got = append(got, text)
			if !strings.HasPrefix(path.Rule.Setting, "filesystem.denyRead") {
				t.Errorf("%v: %s is hidden for %v", c.denyRead, text, path.Rule)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v, allowing %v: %v, not %v", c.denyRead, c.allowRead, got, c.want)
		}
	}
}
