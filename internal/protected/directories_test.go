package protected

import (
	"strings"
	"testing"
)

// What is written is read again, and damage is noticed.
func TestDirectoriesTravel(t *testing.T) {
	d := NewDirectories(3)
	d.Add("/w/Sub", Identity{Dev: 1, Ino: 2, Born: 3}, 1)
	d.Add("/w/sub/b", Identity{}, 2)
	text := d.Encode()
	got, ok := DecodeDirectories(text)
	if !ok {
		t.Fatal("it cannot be read")
	}
	for _, d := range []*Directories{d, got} {
		for path, want := range map[string]bool{"/w/sub": true, "/W/SUB": true, "/w/sub/b": true, "/w": false, "/w/sub/": false, "": false} {
			if d.Stood(path) != want {
				t.Errorf("%q: %v", path, !want)
			}
		}
		if _, ok := d.Forbids("/elsewhere", Identity{Dev: 1, Ino: 2, Born: 3}, ".vscode"); !ok {
			t.Error("the identity is forgotten")
		}
		if _, ok := d.Forbids("/elsewhere", Identity{Dev: 1, Ino: 2, Born: 4}, ".vscode"); ok {
			t.Error("another directory has the identity")
		}
		if _, ok := d.Forbids("/elsewhere", Identity{}, ".vscode"); ok {
			t.Error("an unknown identity counts")
		}
	}
	if _, ok := DecodeDirectories(text[:len(text)-1]); ok {
		t.Error("a damaged text is read")
	}
	var none *Directories
	if empty, ok := DecodeDirectories(none.Encode() + NewDirectories(3).Encode()); !ok || empty.Stood("/") {
		t.Error("nothing is something")
	}
}

// The least depth counts where a directory is met twice.
func TestLeastDepthCounts(t *testing.T) {
	d := NewDirectories(3)
	d.Add("/w/a", Identity{Dev: 1, Ino: 1}, 2)
	d.Add("/w/a", Identity{Dev: 1, Ino: 1}, 1)
	d.Add("/w/a", Identity{Dev: 1, Ino: 1}, 2)
	if _, ok := d.Forbids("/w/a", Identity{}, ".idea"); !ok {
		t.Error("the path counts at the greater depth")
	}
	if _, ok := d.Forbids("/x", Identity{Dev: 1, Ino: 1}, ".idea"); !ok {
		t.Error("the identity counts at the greater depth")
	}
}

// Every name of the table is a candidate, and so is every part of one.
func TestCandidates(t *testing.T) {
	for _, name := range Everywhere() {
		for _, part := range strings.Split(name, "/") {
			if !Candidate(part) || !Candidate(strings.ToUpper(part)) {
				t.Errorf("%s is none", part)
			}
		}
	}
	for _, name := range []string{"", ".", "..", ".git", "vscode", "main.go"} {
		if Candidate(name) {
			t.Errorf("%q is one", name)
		}
	}
}

// Spellings that some file system takes for a protected name are protected, too.
func TestSpellings(t *testing.T) {
	d := NewDirectories(3)
	d.Add("/w/a", Identity{}, 1)
	for _, name := range []string{".VSCODE", ".v\u017fcode", ".vs\u200bcode", ".vscode\u00ad", "\ufeff.vscode", ".vscode\ufe0f", ".vscode.", ".vscode. .", ".gitcon\ufb01g", ".mcp.json "} {
		if _, ok := d.Forbids("/w/a", Identity{}, name); !ok || !Candidate(name) {
			t.Errorf("%q is free", name)
		}
	}
	// A ligature may be as long as what it stands for.
	if !Same(".session", ".se\u00dfion") || Same(".session", ".sesion") {
		t.Error("the ligature of ss")
	}
	for _, name := range []string{".vscode.d", ".vscode-", "vscode.", "...", " ", "\u200b", ".vsc\xffode", ".vscodé", ". vscode"} {
		if _, ok := d.Forbids("/w/a", Identity{}, name); ok {
			t.Errorf("%q is protected", name)
		}
	}
}

// Every entry of the table, and every part of one, in every spelling that some file
// system takes for it, is found by all that ask the table.
func TestEverySpellingOfEveryName(t *testing.T) {
	spellings := map[string]func(string) string{
		"as it is":             func(s string) string { return s },
		"in capitals":          strings.ToUpper,
		"with a long s":        func(s string) string { return strings.ReplaceAll(s, "s", "\u017f") },
		"with a Kelvin sign":   func(s string) string { return strings.ReplaceAll(s, "k", "\u212a") },
		"with ligatures":       strings.NewReplacer("fi", "\ufb01", "st", "\ufb06", "ss", "\u00df").Replace,
		"with a joiner":        func(s string) string { return s[:2] + "\u200d" + s[2:] },
		"after a mark":         func(s string) string { return "\ufeff" + s },
		"with a selector":      func(s string) string { return s + "\ufe0f" },
		"with dots and blanks": func(s string) string { return s + ". . " },
		"with all of it":       func(s string) string { return "\u2060" + strings.ToUpper(s) + "\u00ad. " },
	}
	for how, spelled := range spellings {
		for _, name := range fileNames {
			if name = spelled(name); !IsFile(name) || !Candidate(name) || !forbidden("/w", name) {
				t.Errorf("%+q (%s) is free", name, how)
			}
		}
		for _, entry := range below {
			first, rest, two := strings.Cut(entry, "/")
			if name := spelled(first); len(Under(name)) == 0 || !Candidate(name) || !forbidden("/w", name) {
				t.Errorf("%+q (%s) is free", name, how)
			}
			if !two {
				continue
			}
			if name := spelled(rest); !Candidate(name) || !forbidden("/w/"+spelled(first), name) {
				t.Errorf("%+q (%s) of %s is free", name, how, first)
			}
		}
	}
}

// forbidden asks as if the directory had been there from the beginning.
func forbidden(dir, name string) bool {
	d := NewDirectories(4)
	d.Add(dir, Identity{}, 1)
	_, ok := d.Forbids(dir, Identity{}, name)
	return ok
}
