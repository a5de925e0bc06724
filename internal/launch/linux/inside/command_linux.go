package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit statuses for a program that cannot be started, as shells use them.
const (
	statusNotFound      = 127
	statusNotExecutable = 126
)

// commandError says that the sandbox stands but the program does not start.
type commandError struct {
	status int
	err    error
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// prepareStart gives up everything on the main thread, from where start runs the
// command. The other threads of srt-init keep what they have; the runtime never
// starts new ones from a thread that is locked.
func (i *initProcess) prepareStart() (start func() (pid int, err error), err error) {
	dir, err := i.workingDirectory()
	if err != nil {
		return nil, err
	}
	filter, err := assemble(filterRules(i.spec.Filter))
	if err != nil {
		return nil, err
	}
	if i.spec.Filter.served() {
		i.direct = newDirect(i.control, i.spec)
		i.direct.paused = i.pauses.recent
		i.guard = startGuard(i.control, i.spec, i.direct)
	}
	listener, err := confineThread(filter, i.spec.Filter)
	if err != nil {
		return nil, &stageError{stage: "privileges", err: err}
	}
	if i.guard != nil {
		i.guard.listen(listener)
	}
	program, attr, err := i.program(dir)
	if err != nil {
		return nil, err
	}
	return func() (int, error) { return i.spawn(program, attr) }, nil
}

// confineThread gives up every privilege of the calling thread for good and
// puts the filter on it. What it starts inherits all of that.
func confineThread(prog []unix.SockFilter, o FilterOptions) (int, error) {
	var keep uint64
	if o.NestedNamespaces && os.Getuid() == 0 {
		keep = nestedRootCapabilities
	}
	if err := dropCapabilities(keep); err != nil {
		return -1, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("setting no_new_privs: %w", err)
	}
	return installFilter(prog, o.served())
}

// workingDirectory picks where the command starts. A directory that the policy
// hides is replaced by the home directory, else the root, with a warning.
func (i *initProcess) workingDirectory() (string, error) {
	for _, dir := range []string{i.spec.Dir, i.spec.Home, "/"} {
		if dir == "" || unix.Access(dir, unix.X_OK) != nil || !isDir(dir) {
			continue
		}
		if dir != i.spec.Dir {
			note := fmt.Sprintf("the working directory %s is not visible inside the sandbox; starting in %s", i.spec.Dir, dir)
			_ = SendMessage(i.control, MessageNote, []byte(note))
		}
		return dir, nil
	}
	return "", fmt.Errorf("starting in %s: no usable directory", i.spec.Dir)
}

func isDir(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.IsDir()
}

// program finds what to run and what it is born with.
func (i *initProcess) program(dir string) (string, *syscall.ProcAttr, error) {
	path, err := lookPath(i.spec.Path, dir, i.spec.Env)
	if err != nil {
		return "", nil, err
	}
	files, err := commandFiles(i.spec.NullFD)
	if err != nil {
		return "", nil, err
	}
	return path, &syscall.ProcAttr{Dir: dir, Env: i.spec.Env, Files: files}, nil
}

// spawn starts the program; a script without a "#!" line is given to the shell,
// as execvp(3) does.
func (i *initProcess) spawn(path string, attr *syscall.ProcAttr) (int, error) {
	pid, err := i.fork(path, i.spec.Args, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		pid, err = i.fork("/bin/sh", append([]string{"sh", path}, i.spec.Args[1:]...), attr)
	}
	var stage *stageError
	switch {
	case errors.As(err, &stage):
		return 0, err
	case errors.Is(err, syscall.EPERM) && i.limited():
		// The kernel says the same for a program that must not run.
		return 0, startFailure(i.spec.Path, fmt.Errorf("%w (setting limits needs ptrace, which a tracer such as strace -f, kernel.yama.ptrace_scope above 1 and some security modules prevent)", err))
	case err != nil:
		return 0, startFailure(i.spec.Path, err)
	}
	return pid, nil
}

// maxNullFD bounds the table of the command's descriptors.
const maxNullFD = 1024

// commandFiles are the descriptors that the command is born with: the standard
// streams, and /dev/null in a slot that the caller uses itself.
func commandFiles(null int) ([]uintptr, error) {
	files := []uintptr{0, 1, 2}
	if null < len(files) || null > maxNullFD {
		return files, nil
	}
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/null: %w", err)
	}
	for len(files) < null {
		files = append(files, ^uintptr(0)) // closed
	}
	return append(files, uintptr(fd)), nil
}

func startFailure(name string, err error) error {
	status := statusNotExecutable
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
		status = statusNotFound
	}
	return &commandError{status: status, err: fmt.Errorf("starting %s: %w", name, err)}
}

// lookPath finds a program as the command would, inside the sandbox and along
// the command's own PATH.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return absolute(name, dir), nil
	}
	found := error(syscall.ENOENT)
	for _, d := range filepath.SplitList(pathOf(env)) {
		if d == "" {
			d = "."
		}
		candidate := absolute(filepath.Join(d, name), dir)
		fi, err := os.Stat(candidate)
		if err != nil || fi.IsDir() {
			continue
		}
		if unix.Access(candidate, unix.X_OK) == nil {
			return candidate, nil
		}
		found = syscall.EACCES
	}
	if found == syscall.ENOENT {
		return "", &commandError{status: statusNotFound, err: fmt.Errorf("%s: command not found", name)}
	}
	return "", startFailure(name, found)
}

func absolute(p, dir string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

func pathOf(env []string) string {
	for k := len(env) - 1; k >= 0; k-- {
		if v, ok := strings.CutPrefix(env[k], "PATH="); ok {
			return v
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

// detachStreams points srt-init's own streams at /dev/null, so that a reader of
// the command's output sees its end when the command closes it.
func detachStreams() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0)
	}
	unix.Close(null)
}
