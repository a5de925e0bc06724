package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The techniques of this file attack invariant 5: the command cannot reach a
// process outside its sandbox, nor signal or trace srt-init.

// target is the process to attack: srt-init, or $ATTACK_TARGET where there is no
// sandbox.
func target() int {
	if pid, err := strconv.Atoi(os.Getenv("ATTACK_TARGET")); err == nil {
		return pid
	}
	return 1
}

var processTechniques = []technique{
	{"target: seize", func() error { return ptrace(unix.PTRACE_SEIZE, target()) }},
	{"target: write memory", writeMemory},
	{"target: advise memory", adviseMemory},
	{"target: any descriptor", anyDescriptor},
	{"target: compare descriptors", func() error {
		_, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(target()), uintptr(os.Getpid()), 2, 0, 0, 0) // KCMP_FILES
		return asError(e)
	}},
	{"target: move pages", func() error {
		_, _, e := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(target()), 0, 0, 0, 0, 0)
		return asError(e)
	}},
	{"target: resource limit", func() error { return limit(target()) }},
	{"target: resource limit of a thread", func() error { return onThreads(limit) }},
	{"target: write to its entries", writeEntries},
	{"target: memory by a descriptor of it", memoryByDescriptor},
	{"target: memory by a descriptor of its directory", memoryByDirectory},
	{"target: memory by the working directory", memoryByWorkingDirectory},
	{"target: working directory", func() error { return open("/proc/"+strconv.Itoa(target())+"/cwd", unix.O_RDONLY) }},
	{"target: program", func() error { return open("/proc/"+strconv.Itoa(target())+"/exe", unix.O_RDONLY) }},
	{"target: mapped files", func() error {
		_, err := os.ReadDir("/proc/" + strconv.Itoa(target()) + "/map_files")
		return err
	}},
	{"host: signal", func() error { return onHost(func(pid int) error { return unix.Kill(pid, 0) }) }},
	{"host: signal by descriptor", func() error {
		return onHost(func(pid int) error { _, err := unix.PidfdOpen(pid, 0); return err })
	}},
	{"host: owner of an input", func() error { return onHost(ownInput) }},
	{"host: entry in /proc", func() error {
		return onHost(func(pid int) error { _, err := os.Stat("/proc/" + strconv.Itoa(pid)); return err })
	}},
	{"endure: every signal to process 1", everySignal},
	{"filter: own listener", ownListener},
	{"filter: newer filter", newerFilter},
	{"filter: program from memory", fromMemory},
}

func asError(e unix.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func ptrace(request, pid int) error {
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), 0, 0, 0, 0)
	return asError(e)
}

// writeMemory writes a word to itself: what counts is whether it may.
func writeMemory() error {
	word := make([]byte, 8)
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	address, err := firstMapping(target())
	if err != nil {
		return err
	}
	_, err = unix.ProcessVMWritev(target(), local, []unix.RemoteIovec{{Base: address, Len: 8}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // allowed, but the page is not writable
	}
	return err
}

// firstMapping is the address of the first mapping, or the usual one where the
// list cannot be read.
func firstMapping(pid int) (uintptr, error) {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil || len(maps) == 0 {
		return 0x400000, nil
	}
	start, _, _ := strings.Cut(string(maps), "-")
	address, err := strconv.ParseUint(start, 16, 64)
	return uintptr(address), err
}

func adviseMemory() error {
	fd, err := unix.PidfdOpen(target(), 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	address, err := firstMapping(target())
	if err != nil {
		return err
	}
	vec := unix.RemoteIovec{Base: address, Len: 4096} // laid out as an iovec
	_, _, e := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&vec)), 1, unix.MADV_COLD, 0, 0)
	return asError(e)
}

func anyDescriptor() error {
	pidfd, err := unix.PidfdOpen(target(), 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	for n := range 64 {
		fd, e := unix.PidfdGetfd(pidfd, n, 0)
		if e == nil {
			unix.Close(fd)
			return nil
		}
		if err == nil || errors.Is(err, unix.EBADF) {
			err = e
		}
	}
	return err
}

// limit sets a resource limit to what it is.
func limit(pid int) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &now, nil)
}

// onThreads tries every thread of the target, by its own number.
func onThreads(try func(tid int) error) error {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(target()) + "/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		if err = try(tid); err == nil {
			return nil
		}
	}
	return err
}

// harmlessEntries are the files of /proc/PID that uid 0 may open for writing
// without any right over the process. What they take changes nothing but how
// soon the process would be ended when memory is short, its share of the
// processor, what counts as recently used and the numbers of quota projects, so
// a command can harm its own sandbox only. The kernel asks for more rights when
// the others are written to.
var harmlessEntries = []string{"sched", "autogroup", "clear_refs", "oom_adj", "oom_score_adj", "coredump_filter", "projid_map"}

// writeEntries writes to what /proc shows of the target.
func writeEntries() error {
	dir := "/proc/" + strconv.Itoa(target())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	err = unix.EACCES
	for _, e := range entries {
		if !e.Type().IsRegular() || slices.Contains(harmlessEntries, e.Name()) {
			continue
		}
		f, e := os.OpenFile(dir+"/"+e.Name(), os.O_WRONLY, 0)
		if e != nil {
			continue
		}
		_, e = f.WriteString("0 0 1\n")
		f.Close()
		if e == nil {
			return nil
		}
		err = e
	}
	return err
}

// memoryByDescriptor opens once more what needs no right to be held.
func memoryByDescriptor() error {
	fd, err := unix.Open(memoryOf(target()), unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return everyOpen(fmt.Sprintf("/proc/self/fd/%d", fd), fmt.Sprintf("/proc/thread-self/fd/%d", fd), fmt.Sprintf("/dev/fd/%d", fd))
}

func memoryByDirectory() error {
	fd, err := unix.Open(path.Dir(memoryOf(target())), unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	dir := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := unix.Symlink(dir, "entries"); err != nil {
		return err
	}
	defer os.Remove("entries")
	return everyOpen(dir+"/mem", dir+"/root/"+memoryOf(target()), "entries/mem")
}

func memoryByWorkingDirectory() error {
	back, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(path.Dir(memoryOf(target()))); err != nil {
		return err
	}
	defer os.Chdir(back)
	return everyOpen("mem", "/proc/self/cwd/mem", "task/../mem")
}

func memoryOf(pid int) string { return fmt.Sprintf("/proc/%d/mem", pid) }

// everyOpen opens the names in every way that srt-init serves.
func everyOpen(names ...string) error {
	err := error(unix.ENOENT)
	for _, name := range names {
		for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR | unix.O_CREAT, unix.O_RDONLY | unix.O_CREAT, unix.O_WRONLY | unix.O_TRUNC} {
			if err = open(name, flags); err == nil {
				return nil
			}
		}
	}
	return err
}

// onHost tries a process of the host, whose number no process inside has.
func onHost(try func(pid int) error) error {
	pid, err := strconv.Atoi(os.Getenv("ATTACK_HOST"))
	if err != nil {
		return err
	}
	return try(pid)
}

// ownInput makes the kernel send signals about a pipe to the process.
func ownInput(pid int) error {
	var fds [2]int
	if err := unix.Pipe2(fds[:], 0); err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	_, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, pid)
	return err
}

// everySignal sends every signal in every way to process 1 and to each of its
// threads. Nothing comes of it, or this would be the last line of the program.
func everySignal() error {
	for s := unix.SIGHUP; s <= unix.SIGSYS; s++ {
		_ = unix.Kill(1, s)
		_ = onThreads(func(tid int) error {
			_ = unix.Kill(tid, s)
			_, _, _ = unix.RawSyscall(unix.SYS_TKILL, uintptr(tid), uintptr(s), 0)
			_, _, _ = unix.RawSyscall(unix.SYS_TGKILL, 1, uintptr(tid), uintptr(s))
			info := [128]byte{}
			*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
			_, _, _ = unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(tid), uintptr(s), uintptr(unsafe.Pointer(&info)))
			return unix.EPERM
		})
		if fd, err := unix.PidfdOpen(1, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, s, nil, 0)
			unix.Close(fd)
		}
		signalByInput(s)
	}
	if _, err := os.Stat("/proc/1"); err != nil {
		return nil
	}
	return unix.EPERM
}

// signalByInput has the kernel send the signal when a pipe becomes readable.
func signalByInput(s syscall.Signal) {
	var fds [2]int
	if unix.Pipe2(fds[:], 0) != nil {
		return
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, 1)
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETSIG, int(s))
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
	_, _ = unix.Write(fds[1], []byte("x"))
}

// ownListener would put the command in the guard's place.
func ownListener() error {
	return withFilter(unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, func() error { return nil })
}

// newerFilter allows everything; the older one must still hold.
func newerFilter() error {
	return withFilter(unix.SECCOMP_RET_ALLOW, 0, func() error { return unix.Unshare(unix.CLONE_NEWUTS) })
}

// withFilter adds a filter that answers one call, mkdirat(2), on a thread of its
// own, which never serves anything else again.
func withFilter(action uint32, flags uintptr, then func() error) error {
	result := make(chan error)
	go func() {
		lockThreadForGood()
		program := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MKDIRAT, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: action},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		err := asError(e)
		if err == nil {
			err = then()
		}
		result <- err
	}()
	return <-result
}

// fromMemory runs this program from a file that exists in memory only.
func fromMemory() error {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("attack", 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "attack")
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: "/proc/self/fd/" + strconv.Itoa(fd), Args: []string{"attack", "namespaces: unshare user"}}
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "SUCCEEDED") {
		err = errors.New(strings.TrimSpace(string(out)))
	}
	return err
}
