package apparmor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProfile(t *testing.T) {
	for path, line := range map[string]string{
		"/usr/local/bin/srt":  `profile srt "/usr/local/bin/srt" flags=(unconfined) {`,
		"/home/a b/bin/srt":   `profile srt "/home/a b/bin/srt" flags=(unconfined) {`,
		`/opt/{x}/"s"*@[1]/s`: `profile srt "/opt/\{x\}/\"s\"\*\@\[1\]/s" flags=(unconfined) {`,
	} {
		text, err := Profile(path)
		if err != nil || !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("Profile(%q) = %v, lacks %s:\n%s", path, err, line, text)
		}
	}
	for _, path := range []string{"", "srt", "/bin/a\nb", "/bin/\x1b[31m"} {
		if text, err := Profile(path); err == nil {
			t.Errorf("Profile(%q) = %q, want an error", path, text)
		}
	}
}

// TestSyntax lets AppArmor's own parser read the profile, without the kernel.
func TestSyntax(t *testing.T) {
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		parser = "/usr/sbin/apparmor_parser"
	}
	if _, err := os.Stat("/etc/apparmor.d/abi/4.0"); err != nil {
		t.Skip("AppArmor 4, which knows the rule userns, is not installed")
	}
	for _, path := range []string{"/usr/local/bin/srt", `/opt/{x} *@[1]/srt`} {
		text, err := Profile(path)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "srt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// Neither load (-Q) nor read the cache (-K).
		if out, err := exec.Command(parser, "-Q", "-K", file).CombinedOutput(); err != nil {
			t.Errorf("%s for %s: %v\n%s", parser, path, err, out)
		}
	}
}
