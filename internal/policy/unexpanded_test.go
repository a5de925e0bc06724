package policy

import (
	"strings"
	"testing"

	"github.com/srt-sandbox/srt/config"
)

// Nothing but "~" stands for something else in an entry. Whoever writes as a shell
// would read it hears that it protects, or opens, another name.
func TestUnexpandedEntries(t *testing.T) {
	f := newFake(1000, "/home/u/w/", "/home/u/w/$there/a", "/home/u/w/~x/f", "/home/u/.ssh/key", "/home/u/w/{a,b}", "/home/u/w/!c")
	for entry, want := range map[string]string{
		"$HOME/.ssh": `"$HOME" is not expanded; write "~/.ssh"`, "${HOME}/.ssh": `write "~/.ssh"`, "%USERPROFILE%/.ssh": `write "~/.ssh"`, "$HOME": `write "~"`,
		"$PWD/x": `write "./x"`, "$PWD": `write "."`, "/home/$USER/.ssh": `"$USER" is not expanded; write what it stands for`,
		"$HOME/**/*.pem": `write "~/**/*.pem"`, "~root/.ssh": `"~root" is not expanded`, "./$XDG_CONFIG_HOME/x": `"$XDG_CONFIG_HOME" is not expanded`,
		"*.{pem,key}": `the braces in "*.{pem,key}" are not expanded; write one entry for each`, "~/{x,y}/z": "write one entry for each", "!public": `"!" makes no exception`,
		"[!a]*": `the brackets in "[!a]*" exclude nothing`, "~/x/k[^0-9].pem": `list the characters that match`, "[a!]": "", "[a^]": "", "[!": "", "a^b": "",
		"{a,b}": "", "!c": "", "{x}": "", "x{": "", "sub/!x": "", "~/!x": "",
		"$there/a": "", "~x/f": "", "~": "", "~/.ssh": "", "/home/u/w/$there/a": "", "~/w/$there/a": "", "/$HOME/x": "write what it stands for", "~/$NAME/x": "write what it stands for", "a$b": "", "$": "", "${": "", "$1": "", "%": "", "100%/x": "", "/x/~y": "", "~~": "",
	} {
		for list, set := range map[string]func(*config.Filesystem, string){
			"denyRead":   func(c *config.Filesystem, e string) { c.DenyRead = entries(e) },
			"allowRead":  func(c *config.Filesystem, e string) { c.AllowRead = entries(e) },
			"allowWrite": func(c *config.Filesystem, e string) { c.AllowWrite = entries(e) },
			"denyWrite":  func(c *config.Filesystem, e string) { c.DenyWrite = entries(e) },
		} {
			said := warnings(mustResolveFake(t, f, func(_ *Input, c *config.Filesystem) { set(c, entry) }))
			if got := strings.Contains(said, "is taken as written"); got != (want != "") || !strings.Contains(said, want) {
				t.Errorf("%s %q: %q", list, entry, said)
			}
		}
	}
	said := warnings(mustResolveFake(t, f, func(_ *Input, c *config.Filesystem) {
		c.DenyRead = []config.PathEntry{{Path: "$HOME/.ssh", Literal: true}}
	}))
	if said != "" {
		t.Errorf("a literal entry: %s", said)
	}
}
