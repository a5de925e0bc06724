package inside

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// inspect looks at the repositories that the command made, once nothing of it
// is left that could change them. Whoever calls it second waits for the first.
// Nobody waits longer than is good: a signal ends the look, and so does a file
// system that does not answer. What was not looked at is said then.
func (i *initProcess) inspect() {
	if i.guard == nil {
		return
	}
	i.inspected.Do(func() {
		if list, ok := i.guard.repositories.noted(); ok && len(list) == 0 {
			return
		}
		i.killRest()
		alone := i.awaitRest() && i.guard.stop()
		list, ok := i.guard.repositories.noted()
		if !ok {
			return
		}
		look := &inspection{control: i.control, rules: i.guard.rules, shared: i.guard.sharedMemory, private: i.spec.Private,
			common: map[object]bool{}, until: time.Now().Add(maxLook), list: list}
		if i.look(look) && alone {
			_ = SendMessage(i.control, MessageChecked, nil)
		}
	})
}

// lookGrace is how long a look may take that has run out of time. It only renames
// then. The host half waits a little longer for all of it.
const lookGrace = 2 * time.Second

// look reports whether each directory was looked at, or was told about.
func (i *initProcess) look(look *inspection) bool {
	interrupted, stop := interruptions()
	defer stop()
	ended := make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		// The kernel shall judge what is done here as if the command did it.
		ended <- setCapabilities(0, 0) == nil && look.all()
	}()
	late := time.NewTimer(maxLook + lookGrace)
	defer late.Stop()
	select {
	case whole := <-ended:
		return whole
	case s := <-interrupted:
		look.leave(unix.SignalName(s.(unix.Signal)) + " ended the look")
	case <-late.C:
		look.leave("its file system, or that of another new repository, does not answer")
	}
	return true
}

// interruptions delivers the signals that ask a job to end. Process 1 takes none
// otherwise, because the command could send them; of that nothing is left now. The
// runtime's handler was taken away behind its back; that of SIGURG is the same. What
// the caller ignores stays ignored.
func interruptions() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	handler, err := GetDisposition(unix.SIGURG)
	if err != nil {
		return signals, func() {}
	}
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if now, err := GetDisposition(s); err != nil || now.Ignores() {
			continue
		}
		signal.Notify(signals, s)
		_ = SetDisposition(s, handler)
	}
	return signals, func() { signal.Stop(signals) }
}

// maxLeft is how many directories are told that were not looked at.
const maxLeft = 100

// leave tells which directories were not looked at. It asks no file system
// anything.
func (n *inspection) leave(why string) {
	var names []string
	for _, dir := range n.list[n.at.Load():] {
		name, err := os.Readlink(descriptorPath(dir.fd))
		if err != nil {
			name = "a directory whose path is too long"
		}
		if n.private == "" || name != n.private && !Beneath(n.private, name) {
			names = append(names, name)
		}
	}
	all := outermost(names)
	for i, name := range all {
		if i == maxLeft {
			name = fmt.Sprintf("%d more", len(all)-maxLeft)
		}
		n.send(repositoryUnseen, name, "new repositories", "not looked at: "+why+"; look at its hooks and configuration before you use git there")
		if i == maxLeft {
			break
		}
	}
}

// outermost drops what lies in another of the directories: it is a part of it, or
// of no interest beside it.
func outermost(names []string) (all []string) {
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	for _, name := range names {
		if last := len(all) - 1; last < 0 || name != all[last] && !Beneath(all[last], name) {
			all = append(all, name)
		}
	}
	return all
}
