package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Without namespaces nothing outlives the command either: not a process whose first
// thread has ended, which looks dead, nor one that starts the next and ends, over
// and over.
func TestLandlockLeavesNothing(t *testing.T) {
	if inside.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	settings := strings.Replace(workSettings, "{", `{"linux":{"backend":"landlock"},`, 1)
	for _, uid := range users() {
		box := newSandboxed(t, uid, settings)
		for name, c := range map[string]struct{ program, script string }{
			"threads": {box.binary, `setsid bash -c 'exec -a ticks $P' >/dev/null 2>&1 & sleep 1`},
			"descent": {"/bin/bash", `setsid $P -c 'f() { f & }; f' & sleep 0.3`},
		} {
			for range 3 {
				mark := fmt.Sprintf("%.4s%d", name, os.Getpid())
				program := filepath.Join(box.dir, mark)
				_ = os.Remove(program)
				if err := os.Symlink(c.program, program); err != nil {
					t.Fatal(err)
				}
				script := strings.ReplaceAll(c.script, "$P", program)
				if out, err := box.command("-s", box.settings, "bash", "-c", script).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				for range 5 {
					if left := threadsNamed(mark); len(left) > 0 {
						t.Errorf("uid %d, %s: %q run on", uid, name, left)
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		}
	}
}

// threadsNamed finds threads that run a program of that name.
func threadsNamed(name string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(stat), "("+name+") ") && !strings.Contains(string(stat), ") Z ") {
			found = append(found, string(stat[:min(len(stat), 40)]))
		}
	}
	return found
}
