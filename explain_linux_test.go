package srt

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestInterpreter(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	if got := interpreter(shell); !strings.Contains(got, "/ld-linux") {
		t.Errorf("%s needs %q", shell, got)
	}
	dir := workDir(t)
	for text, want := range map[string]string{
		"#!/bin/sh\n": "/bin/sh", "#! /usr/bin/env python3 -x\n": "/usr/bin/env", "#!relative\n": "", "#!": "", "": "", "plain": "",
		"\x7fELF\x02\x01": "", "\x7fELF\x02\x01" + strings.Repeat("\xff", 250): "",
	} {
		if err := os.WriteFile(dir+"/f", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := interpreter(dir + "/f"); got != want {
			t.Errorf("%q needs %q, want %q", text, got, want)
		}
	}
}

func FuzzELFInterpreter(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01" + strings.Repeat("\x00", 250)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if path := elfInterpreter(bytes.NewReader(data), data); !bytes.Contains(data, []byte(path)) {
			t.Errorf("%q is not in the file", path)
		}
	})
}
