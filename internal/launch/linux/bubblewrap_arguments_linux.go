package linux

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/launch"
	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
)

// Descriptors that bwrap is born with, next to its streams and the control
// socket.
const (
	argumentsFD = 4
	infoFD      = 5
)

// maxBubblewrapWords is the limit that bwrap itself sets on its options.
const maxBubblewrapWords = 9000

// namespaceWords are bwrap's command line, which every user of the machine may
// read. What the policy decides comes from a descriptor.
//
// bwrap's --die-with-parent is not used: the kernel's parent-death signal
// follows the thread that started bwrap, which may end long before this
// process. srt-init notices by itself that the control socket is closed.
func namespaceWords(newSession bool) []string {
	words := []string{"bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--as-pid-1"}
	if newSession {
		words = append(words, "--new-session")
	}
	return append(words, "--args", strconv.Itoa(argumentsFD), "--", inside.BubblewrapProgram, inside.Name)
}

// bubblewrapArguments translates a plan into options of bwrap: the capabilities
// that srt-init needs, then one option a step, in the order of the plan.
//
// srt-init makes what no option of bwrap can express, see [inside.Plan]: pins
// of symbolic links, hidden files, /dev and /proc. Sources are resolved in the
// tree of the host, so that a later bind never shows an earlier one.
func bubblewrapArguments(plan inside.Plan) ([]string, error) {
	words := []string{"--info-fd", strconv.Itoa(infoFD), "--cap-drop", "ALL"} // root would keep all of them
	for _, c := range inside.Capabilities {
		words = append(words, "--cap-add", capabilityNames[c])
	}
	words = append(words, baseWords(plan)...)
	var seal []string
	w := way{shown: map[string]bool{}, made: map[string]bool{}}
	for _, op := range plan {
		words = append(words, w.words(op)...)
		words = append(words, stepWords(op)...)
		if op.Kind == inside.OpHideDir && !op.Write {
			seal = append(seal, "--remount-ro", op.Path)
		}
	}
	words = append(words, seal...)
	if len(words) > maxBubblewrapWords {
		return nil, &launch.StartError{
			Stage: "bubblewrap",
			Text:  fmt.Sprintf("passing the rules to bwrap: they need %d words, and it takes %d at most", len(words), maxBubblewrapWords),
			Cure:  "use fewer rules, or linux.backend \"native\", which has no such limit",
		}
	}
	return words, nil
}

// baseWords shows the host's tree. The host's device nodes stay usable until
// srt-init has made a /dev of its own from them.
func baseWords(plan inside.Plan) []string {
	for _, op := range plan {
		if op.Kind != inside.OpBase {
			continue
		}
		if op.Write {
			return []string{"--bind", "/", "/", "--ro-bind-try", "/sys", "/sys", "--dev-bind", "/dev", "/dev"}
		}
		return []string{"--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev"}
	}
	return nil
}

// way makes the directories that lead through a hidden one to a place shown in
// it. Those that bwrap makes by itself are closed to other users.
type way struct {
	shown map[string]bool // by place so far: whether the host's object shows
	made  map[string]bool
}

func (w *way) words(op inside.Op) []string {
	var words []string
	switch op.Kind {
	case inside.OpHideDir:
		w.shown[op.Path] = false
	case inside.OpBind:
		words = w.to(path.Dir(op.Path))
		w.shown[op.Path] = true
	}
	return words
}

func (w *way) to(dir string) []string {
	var missing []string
	for ; dir != "/"; dir = path.Dir(dir) {
		shown, ok := w.shown[dir]
		switch {
		case ok && shown:
			return nil
		case ok:
			return w.make(missing)
		}
		missing = append(missing, dir)
	}
	return nil
}

// make names the directories from the top down, each once.
func (w *way) make(dirs []string) []string {
	var words []string
	for _, d := range slices.Backward(dirs) {
		if !w.made[d] {
			w.made[d] = true
			words = append(words, "--perms", "0755", "--dir", d)
		}
	}
	return words
}

func stepWords(op inside.Op) []string {
	switch op.Kind {
	case inside.OpPin:
		if !op.Symlink {
			return []string{"--ro-bind", op.Path, op.Path}
		}
	case inside.OpBind:
		if op.Write {
			return []string{"--bind", op.Path, op.Path}
		}
		return []string{"--ro-bind", op.Path, op.Path}
	case inside.OpHideDir:
		if op.Write || op.Nested {
			return []string{"--size", strconv.Itoa(inside.ScratchLimit), "--tmpfs", op.Path}
		}
		return []string{"--tmpfs", op.Path}
	}
	return nil
}

var capabilityNames = map[uintptr]string{
	unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN", unix.CAP_NET_ADMIN: "CAP_NET_ADMIN", unix.CAP_SYS_PTRACE: "CAP_SYS_PTRACE",
	unix.CAP_SETPCAP: "CAP_SETPCAP", unix.CAP_SYS_RESOURCE: "CAP_SYS_RESOURCE", unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE",
	unix.CAP_KILL: "CAP_KILL", unix.CAP_SETFCAP: "CAP_SETFCAP", unix.CAP_NET_BIND_SERVICE: "CAP_NET_BIND_SERVICE",
}
