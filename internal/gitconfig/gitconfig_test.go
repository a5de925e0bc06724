package gitconfig

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// corpus are files that are easy to read wrongly.
var corpus = []string{
	"",
	"[core]\n\tbare = false\n",
	"\xef\xbb\xbf[core]\nbare\n",
	"[CORE]\n HooksPath=X\n",
	"[core] fsmonitor = a ; b\n",
	"[core] fsmonitor = \"a ; b\" # c\n",
	"[core]\nfsmonitor = a\\\n  b\n",
	"[core]\r\nfsmonitor = a\\\r\nb\r\n",
	"[core]\nx = \"a\\\nb\"\n",
	"[core]\nx = a \"b  c\" d   \n",
	"[core]\nx = \\t\\n\\b\\\\\\\"\n",
	"[core]\nx = \\q\ny=1\n",
	"[core]\nx = \"open\ny = 1\n",
	"[core]\nx y = 1\n",
	"[core]\nx =\ny\n",
	"[core]x=1[core]y=2\n",
	"[filter \"L]f\\\"s\\\\\"]\nClean = x\n",
	"[Filter.LFS]\nclean = x\n",
	"[a.b \"C.d\"]\ne = f\n",
	"[a \"\"]\ne = f\n",
	"[a  \t \"b\"]\ne = f\n",
	"[a \"b\" ]\ne = f\n",
	"[a \"b\nc\"]\ne = f\n",
	"[a b]\ne = f\n",
	"[a\n\"b\"]\ne = f\n",
	"[a]; comment\n# [b]\n  e-1 = f\n",
	"[a]\n1e = f\n",
	"[a]\n_e = f\n",
	"[a]\ne\\\n= f\n",
	"# comment \\\n[a]\ne = f # \\\ng = h\n",
	"[a]\ne = \"#\" ; \"\n",
	"[a]\ne = f\rg\n",
	"[a]\ne\r= f\n",
	"[a]\ne = f",
	"[a",
	"[a]\ne = !sh -c 'x'\n[include]\npath = ../x\n",
	"[include]path=x\n[includeIf \"gitdir:~/\"]\npath=y\n",
	"[a]e=f ; [b]\ng = h\n",
	"[]\nx = 1\n",
	"[.a]\nx = 1\n",
	"[a.]\nx = 1\n",
}

// list is what the installed git makes of a file, in the form of listed.
func list(t *testing.T, data string) (text string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "config", "--file", file, "--no-includes", "--list", "-z")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	out, err := cmd.Output()
	return string(out), err == nil
}

func listed(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Key())
		if !e.Bare {
			b.WriteString("\n" + e.Value)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// plain leaves out what versions of git disagree about: a carriage return between
// words, white space before an empty pair of quotes, and empty names.
func plain(data string) bool {
	for _, odd := range []string{"\rg", "\"\"", "[]", "[.", ".]"} {
		if strings.Contains(data, odd) {
			return false
		}
	}
	return true
}

func agree(t *testing.T, data string) {
	t.Helper()
	entries, err := Parse([]byte(data))
	want, ok := list(t, data)
	if ok != (err == nil) {
		t.Errorf("%q: %v, git says %v", data, err, ok)
	}
	if ok && listed(entries) != want {
		t.Errorf("%q: %q, git reads %q", data, listed(entries), want)
	}
}

func TestAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git to compare with")
	}
	for _, data := range corpus {
		if plain(data) {
			agree(t, data)
		}
	}
	pieces := []string{"[a]", "[b \"C\"]", "[a.b]", "\n", "\r\n", "x", " = ", "=", "\\", "\"", "y z", " ", ";", "#", "\\n", "[", "]", "1", "-", "\r"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := "[s]\n"
		for range 1 + random.IntN(12) {
			data += pieces[random.IntN(len(pieces))]
		}
		if plain(data) && !strings.Contains(data, " \"") && !strings.Contains(strings.ReplaceAll(data, "\r\n", ""), "\r") {
			agree(t, data)
		}
	}
}

func TestSyntaxError(t *testing.T) {
	entries, err := Parse([]byte("[core]\nfsmonitor = x\n\nbroken here = \\q\n[core]\neditor = y\n"))
	if err == nil || err.Error() != "reading a git configuration: line 4 is not in its syntax" || listed(entries) != "core.fsmonitor\nx\x00" {
		t.Errorf("%v, %q", err, listed(entries))
	}
}

// To git a NUL byte ends a name, so that these are core.fsmonitor and a path.
func TestNUL(t *testing.T) {
	for _, data := range []string{"[core \"fsmonitor\x00\"]\nx = y\n", "[core \"fsmonitor\\\x00\"]\nx = y\n", "[core]\nx = y\x00z\n", "[core]\nx\x00 = y\n", "[core]\nx = \"y\\\x00\"\n"} {
		if entries, err := Parse([]byte(data)); err == nil || len(entries) > 0 {
			t.Errorf("%q: %q, %v", data, listed(entries), err)
		}
	}
}

func TestRunsPrograms(t *testing.T) {
	for _, text := range []string{
		"[core]fsmonitor=x", "[core]FSMonitor=\"tru\"e1", "[core]hooksPath=x", "[core]sshCommand=x", "[core]pager=x", "[core]editor=x", "[core]askPass=x", "[core]gitProxy=x",
		"[core]alternateRefsCommand=x", "[sequence]editor=x", "[filter \"l\"]clean=x", "[filter.l]smudge=x", "[filter \"l\"]process=x", "[diff]external=x", "[diff \"d\"]command=x",
		"[diff \"d\"]textconv=x", "[merge \"m\"]driver=x", "[alias]st=!x", "[alias]st=rebase --exec x", "[include]path=x", "[includeIf \"gitdir:/\"]path=x", "[credential]helper=x",
		"[credential \"https://h\"]helper=!x", "[gpg]program=x", "[gpg \"ssh\"]defaultKeyCommand=x", "[uploadpack]packObjectsHook=x", "[protocol]allow=always", "[protocol \"ext\"]allow=user",
		"[url \"ext::sh -c x\"]insteadOf=https://", "[url \"\"]insteadOf=x", "[url \"ex\"]insteadOf=x", "[remote \"o\"]url=ext::sh", "[remote \"o\"]vcs=ext", "[remote \"o\"]uploadpack=x",
		"[branch \"m\"]remote=ext::sh", "[submodule \"s\"]update=!x", "[pager]log=x", "[difftool \"d\"]cmd=x", "[mergetool \"d\"]path=x", "[man \"w\"]cmd=x", "[browser \"b\"]path=x",
		"[sendemail]toCmd=x", "[sendemail]smtpServer=/x", "[trailer \"t\"]command=x", "[interactive]diffFilter=x", "[imap]tunnel=x", "[tar \"x\"]command=x", "[hook \"h\"]event=pre-commit",
		"[gc]recentObjectsHook=x", "[lfs \"customtransfer.x\"]path=x", "[init]templateDir=x", "[later \"unknown\"]runCommand=x", "[http]cookieFile=x",
		"[mergetool \"vimdiff\"]layout=`x`", "[instaweb]port=1", "[tig \"bind\"]generic=P !x", "[tig]bind=x", "[stgit \"alias\"]x=!y", "[branchless \"test.alias\"]x=y", "[gitflow \"path\"]hooks=/x",
	} {
		if !runs(t, text) {
			t.Errorf("%s is not seen", text)
		}
	}
	for _, text := range []string{
		"[core]repositoryFormatVersion=0\nfilemode=true\nbare=false\nlogallrefupdates=true\nignorecase\nsymlinks=false\nautocrlf=input", "[core]fsmonitor", "[core]fsmonitor=True", "[remote \"origin\"]url=https://h/r.git\nfetch=+refs/*:refs/*\npromisor=true\ntagOpt=--no-tags",
		"[remote \"origin\"]url=ssh://git@h/ext::", "[remote]pushDefault=o", "[branch \"main\"]remote=origin\nmerge=refs/heads/main\nrebase=true\ndescription=!important", "[submodule \"s\"]url=../s\nactive=true\nupdate=rebase", "[url \"ssh://h/\"]insteadOf=https://h/",
		"[user]name=!x\nemail=y\nsigningKey=k", "[extensions]worktreeConfig=true\nobjectFormat=sha256\npartialClone=origin", "[color]pager=true", "[pager]log=false", "[protocol]version=2", "[protocol \"file\"]allow=always", "[protocol \"ext\"]allow=never", "[gc]auto=0",
		"[push]default=simple", "[commit]gpgSign=true", "[filter \"lfs\"]required=true", "[lfs]repositoryformatversion=0\n[lfs \"https://h/r.git/info/lfs\"]access=basic", "[sendemail]to=x", "[diff]tool=vimdiff\nalgorithm=patience", "[core]worktree=/x",
	} {
		if runs(t, text) {
			t.Errorf("%s is taken for a program", text)
		}
	}
}

func runs(t *testing.T, text string) bool {
	t.Helper()
	entries, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return slices.ContainsFunc(entries, RunsPrograms)
}

// What Format writes is what was read, for this package and for git.
func TestFormat(t *testing.T) {
	for _, data := range corpus {
		entries, err := Parse([]byte(data))
		if err != nil {
			continue
		}
		text := Format(entries)
		again, err := Parse(text)
		if err != nil || len(entries) > 0 && entries[0].Section != "" && listed(again) != listed(entries) {
			t.Errorf("%q became %q, %v", data, text, err)
		}
	}
	got := string(Format([]Entry{{Section: "core", Name: "bare", Value: "false"}, {Section: "remote", Subsection: `a"\`, Name: "url", Value: " x;#\"\n"}, {Section: "remote", Subsection: `a"\`, Name: "prune", Bare: true}}))
	if got != "[core]\n\tbare = false\n[remote \"a\\\"\\\\\"]\n\turl = \" x;#\\\"\\n\"\n\tprune\n" {
		t.Errorf("%s", got)
	}
	if text := Format([]Entry{{Name: "x"}, {Section: "a", Subsection: "b\nc", Name: "x"}, {Section: "a", Name: "x", Value: "\x00"}}); len(text) != 0 {
		t.Errorf("%q", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, data := range corpus {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, _ := Parse(data)
		var sayable []Entry
		for _, e := range entries {
			if len(e.Key())+len(e.Value) > len(data)+2 {
				t.Errorf("%q: %q is longer than the file", data, e.Key())
			}
			if e.Section != "" && !strings.Contains(e.Subsection+e.Value, "\x00") {
				sayable = append(sayable, e)
			}
		}
		text := Format(entries)
		again, err := Parse(text)
		if err != nil || listed(again) != listed(sayable) {
			t.Errorf("%q became %q: %v", data, text, err)
		}
		if !bytes.Equal(Format(again), text) {
			t.Errorf("%q is not stable", text)
		}
	})
}
