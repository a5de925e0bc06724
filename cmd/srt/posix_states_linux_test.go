package main

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// states makes calls from callers in special circumstances.
func (r *posixRun) states() error {
	for _, s := range []struct {
		name string
		run  func() string
	}{
		{"umask", r.masks}, {"umask of other threads", r.othersMasks}, {"working directory removed", r.removedDirectory}, {"working directory moved", r.movedDirectory},
		{"working directory closed", r.closedDirectory}, {"thread with its own directory", r.ownDirectory}, {"no descriptor left", r.noDescriptors},
		{"default ACL", r.defaultACL}, {"removed directory as a base", r.removedBase}, {"lowest descriptor", r.lowestDescriptor},
		{"file size limit", r.sizeLimit}, {"exclusive race", r.exclusive}, {"nameless file gets a name", r.nameless}, {"open of a socket", r.bound},
	} {
		r.count = -1 // all of these
		if err := r.do(s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}

func (r *posixRun) masks() string {
	result := ""
	for _, mask := range []int{0, 0o777, 0o27, 0o200} {
		unix.Umask(mask)
		result += fmt.Sprintf(" %o:", mask) + openAs(unix.AT_FDCWD, fmt.Sprint("u", mask), unix.O_CREAT|unix.O_RDWR, 0o777) + openAs(unix.AT_FDCWD, ".", unix.O_TMPFILE|unix.O_RDWR, 0o666)
		result += errorName(unix.Mkdir(fmt.Sprint("d", mask), 0o777)) + errorName(unix.Mknod(fmt.Sprint("n", mask), unix.S_IFIFO|0o666, 0))
		result += errorName(unix.Mkdir(fmt.Sprint("group/d", mask), 0o777))
	}
	unix.Umask(0o022)
	return result
}

// othersMasks is for a mask that other threads change: one after the other, many
// at once, and one that shares it no longer.
func (r *posixRun) othersMasks() string {
	result := ""
	create := func(name string) {
		var st unix.Stat_t
		_ = openAs(unix.AT_FDCWD, name, unix.O_CREAT|unix.O_WRONLY, 0o777)
		e := errorName(unix.Stat(name, &st))
		result += fmt.Sprintf(" %o%s", st.Mode, e)
	}
	elsewhere := func(run func()) {
		var wait sync.WaitGroup
		wait.Go(func() {
			runtime.LockOSThread() // and ends with the goroutine
			run()
		})
		wait.Wait()
	}
	create("o")
	for i := range 20 {
		mask := i * 37 & 0o777
		elsewhere(func() { unix.Umask(mask) })
		create(fmt.Sprint("o", i))
		create(fmt.Sprint("o", i, "again"))
	}
	for i := range 10 {
		var wait sync.WaitGroup
		for n := range 100 { // more than are followed at a time
			wait.Go(func() {
				runtime.LockOSThread()
				unix.Umask(n)
				_ = unix.Mkdir("many", 0o777)
				_ = unix.Rmdir("many")
			})
		}
		wait.Wait()
		unix.Umask(i)
		create(fmt.Sprint("p", i))
		elsewhere(func() { unix.Umask(0o70 | i) })
		create(fmt.Sprint("q", i))
	}
	elsewhere(func() {
		_ = unix.Unshare(unix.CLONE_FS)
		unix.Umask(0o777)
	})
	create("r")
	unix.Umask(0o022)
	return result
}

// everyCreation makes one of each kind in the working directory.
func everyCreation() string {
	return openAs(unix.AT_FDCWD, "made", unix.O_CREAT|unix.O_WRONLY, 0o600) + " " + openAs(unix.AT_FDCWD, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600) + " " +
		openAs(unix.AT_FDCWD, "../file", unix.O_WRONLY, 0) + " " + openAs(unix.AT_FDCWD, "./", unix.O_DIRECTORY|unix.O_PATH|unix.O_CREAT, 0) + " " +
		errorName(unix.Mkdir("made2", 0o700)) + " " + errorName(unix.Mkdir(".", 0o700)) + " " + errorName(unix.Mkdir("../made3", 0o700)) + " " + errorName(unix.Symlink("x", "made4")) + " " + errorName(unix.Rename("file", "made5")) + " " +
		errorName(unix.Link("made", "made6")) + " " + errorName(unix.Unlink("made6")) + " " + errorName(unix.Rmdir("made2")) + " " + errorName(unix.Mknod("made7", unix.S_IFIFO|0o600, 0)) + " " + errorName(unix.Rmdir("."))
}

func (r *posixRun) inDirectory(name string, change func() error) string {
	if err := os.Chdir(name); err != nil {
		return err.Error()
	}
	if err := change(); err != nil {
		return err.Error()
	}
	result := everyCreation()
	if err := os.Chdir(r.root); err != nil {
		return err.Error()
	}
	return result
}

func (r *posixRun) removedDirectory() string {
	return r.inDirectory("empty", func() error { return unix.Rmdir(filepath.Join(r.root, "empty")) })
}

func (r *posixRun) movedDirectory() string {
	return r.inDirectory("dir/sub", func() error {
		return unix.Rename(filepath.Join(r.root, "dir/sub"), filepath.Join(r.root, "elsewhere"))
	})
}

func (r *posixRun) closedDirectory() string {
	result := r.inDirectory("dir", func() error { return unix.Chmod(filepath.Join(r.root, "dir"), 0) })
	_ = unix.Chmod("dir", 0o755)
	return result
}

// ownDirectory is for a thread that shares neither directory nor umask with the others.
func (r *posixRun) ownDirectory() string {
	result := make(chan string)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		if err := withoutPrivileges(); err != nil {
			result <- err.Error()
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			result <- err.Error()
		}
		_ = unix.Chdir("dir")
		unix.Umask(0o077)
		text := errorName(unix.Mkdir("inner", 0o777)) + openAs(unix.AT_FDCWD, "inner/f", unix.O_CREAT|unix.O_WRONLY, 0o666)
		text += openAs(unix.AT_FDCWD, "/proc/thread-self/cwd/t", unix.O_CREAT|unix.O_WRONLY, 0o666) + openAs(unix.AT_FDCWD, "/proc/self/cwd/s", unix.O_CREAT|unix.O_WRONLY, 0o666)
		result <- text
	}()
	return <-result
}

func (r *posixRun) noDescriptors() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	fd, err := unix.Dup(1)
	if err != nil {
		return err.Error()
	}
	unix.Close(fd)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd), Max: limit.Max}); err != nil {
		return err.Error()
	}
	text := openAs(unix.AT_FDCWD, "many", unix.O_CREAT|unix.O_WRONLY, 0o600) + openAs(unix.AT_FDCWD, "file", unix.O_TRUNC|unix.O_WRONLY, 0o600) +
		errorName(unix.Mkdir("still", 0o700))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	return text
}

// defaultACL uses the directory that the test prepared, if the file system
// has such lists.
func (r *posixRun) defaultACL() string {
	dir := filepath.Join(filepath.Dir(r.root), "acl")
	unix.Umask(0o077)
	defer unix.Umask(0o022)
	text := openAs(unix.AT_FDCWD, dir+"/f", unix.O_CREAT|unix.O_WRONLY, 0o666) + openAs(unix.AT_FDCWD, dir, unix.O_TMPFILE|unix.O_WRONLY, 0o666)
	text += errorName(unix.Mkdir(dir+"/d", 0o777)) + errorName(unix.Mknod(dir+"/p", unix.S_IFIFO|0o777, 0))
	text += listTree(dir)
	for _, name := range []string{"f", "d", "p"} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	return text
}

func (r *posixRun) removedBase() string {
	fd, err := unix.Open("empty", unix.O_RDONLY, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	_ = unix.Rmdir("empty")
	return openAs(fd, "new", unix.O_CREAT|unix.O_WRONLY, 0o600) + errorName(unix.Mkdirat(fd, "d", 0o700)) + errorName(unix.Mkdirat(fd, "../d", 0o700)) + errorName(unix.Mkdirat(fd, ".", 0o700)) +
		openAs(fd, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600) + openAs(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d/x", fd), unix.O_CREAT|unix.O_WRONLY, 0o600)
}

func (r *posixRun) lowestDescriptor() string {
	a, _ := unix.Dup(1)
	b, _ := unix.Dup(1)
	unix.Close(a)
	fd, err := unix.Open("file", unix.O_RDWR|unix.O_CREAT, 0o600)
	text := fmt.Sprint(errorName(err), fd == a)
	unix.Close(fd)
	unix.Close(b)
	return text
}

func (r *posixRun) sizeLimit() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err.Error()
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: limit.Max}); err != nil {
		return err.Error()
	}
	signal.Ignore(unix.SIGXFSZ)
	text := errorName(unix.Truncate("file", 101)) + errorName(unix.Truncate("file", 50)) + errorName(unix.Truncate("file", 100)) + openAs(unix.AT_FDCWD, "sized", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err.Error()
	}
	return text
}

// exclusive lets threads create one name; exactly one of them must succeed.
func (r *posixRun) exclusive() string {
	const rounds, threads = 50, 6
	for i := range rounds {
		results := make(chan error)
		for range threads {
			go func() {
				fd, err := unix.Open(fmt.Sprint("exclusive", i), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
				unix.Close(fd)
				results <- err
			}()
		}
		won := 0
		for range threads {
			if <-results == nil {
				won++
			}
		}
		if won != 1 {
			return fmt.Sprint(won, " winners")
		}
		_ = unix.Unlink(fmt.Sprint("exclusive", i))
	}
	return "one winner each"
}

func (r *posixRun) nameless() string {
	fd, err := unix.Open("dir", unix.O_TMPFILE|unix.O_RDWR, 0o640)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	text := errorName(unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, "named", unix.AT_SYMLINK_FOLLOW)) +
		errorName(unix.Linkat(fd, "", unix.AT_FDCWD, "named2", unix.AT_EMPTY_PATH)) + errorName(unix.Linkat(r.fds["file"], "", unix.AT_FDCWD, "named3", unix.AT_EMPTY_PATH))
	exclusive, err := unix.Open("dir", unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL, 0o640)
	if err != nil {
		return text + err.Error()
	}
	defer unix.Close(exclusive)
	return text + errorName(unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", exclusive), unix.AT_FDCWD, "named4", unix.AT_SYMLINK_FOLLOW))
}

func (r *posixRun) bound() string {
	return openAs(unix.AT_FDCWD, "socket", unix.O_RDWR, 0) + openAs(unix.AT_FDCWD, "socket", unix.O_CREAT, 0) + openAs(unix.AT_FDCWD, "socket", unix.O_PATH|unix.O_CREAT, 0)
}

// sockets connects and binds sockets of each kind, with addresses of every length.
func (r *posixRun) sockets() error {
	family := func(f uint16, rest string) []byte { return append(binary.NativeEndian.AppendUint16(nil, f), rest...) }
	loopback := "\x00\x01\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"
	addresses := map[string][]byte{
		"none": {}, "one byte": {1}, "unix": family(unix.AF_UNIX, ""), "unnamed": family(unix.AF_UNIX, "\x00"), "abstract": family(unix.AF_UNIX, "\x00nobody"),
		"missing": family(unix.AF_UNIX, "nobody"), "missing, ended": family(unix.AF_UNIX, "nobody\x00rest"), "file": family(unix.AF_UNIX, "file\x00"), "directory": family(unix.AF_UNIX, "dir\x00"), "below": family(unix.AF_UNIX, "missing/x\x00"), "no directory": family(unix.AF_UNIX, "file/x\x00"), "loop": family(unix.AF_UNIX, "loop\x00"),
		"slash": family(unix.AF_UNIX, "fresh/\x00"), "readonly": family(unix.AF_UNIX, "readonly/new\x00"), "dangling": family(unix.AF_UNIX, "dangling\x00"), "full": family(unix.AF_UNIX, strings.Repeat("n", 108)),
		"longer": family(unix.AF_UNIX, strings.Repeat("n", 109)), "storage": family(unix.AF_UNIX, strings.Repeat("n", 126)), "loopback": family(unix.AF_INET, loopback), "short": family(unix.AF_INET, loopback[:6]),
		"inet6": family(unix.AF_INET6, "\x00\x01"+strings.Repeat("\x00", 19)+"\x01\x00\x00\x00\x00"), "unspecified": family(unix.AF_UNSPEC, loopback), "other": family(77, loopback),
	}
	for _, kind := range []struct {
		name        string
		family, typ int
	}{{"unix", unix.AF_UNIX, unix.SOCK_STREAM}, {"packets", unix.AF_UNIX, unix.SOCK_SEQPACKET}, {"tcp", unix.AF_INET, unix.SOCK_STREAM}, {"tcp6", unix.AF_INET6, unix.SOCK_STREAM}, {"udp", unix.AF_INET, unix.SOCK_DGRAM}} {
		for _, name := range sortedKeys(addresses) {
			for _, call := range []string{"bind", "connect"} {
				nr := map[string]uintptr{"connect": unix.SYS_CONNECT, "bind": unix.SYS_BIND}[call]
				r.count = -1
				err := r.do(fmt.Sprint("socket ", kind.name, " ", call, " ", name), func() string {
					fd, err := unix.Socket(kind.family, kind.typ, 0)
					if err != nil {
						return errorName(err)
					}
					defer unix.Close(fd)
					address := append(addresses[name], 0) // never empty
					return errorNumber(raw(nr, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)-1))) +
						errorNumber(raw(nr, uintptr(fd), 1, uintptr(len(address)-1))) + errorNumber(raw(nr, 0, uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)-1))) +
						errorNumber(raw(nr, 999, uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)-1))) + errorNumber(raw(nr, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), ^uintptr(0)))
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// random makes calls one after the other on a tree that they change.
func (r *posixRun) random() error {
	calls, here := onePathCalls(), cwdCalls()
	for seed := range int64(5) {
		if err := r.rebuild(); err != nil {
			return err
		}
		source := rand.New(rand.NewSource(seed))
		for range 400 {
			names := r.pairSpellings()[:40]
			a, b := names[source.Intn(len(names))], names[source.Intn(len(names))]
			if a == "/" || strings.HasPrefix(a, "..") {
				continue
			}
			switch kind := source.Intn(10); {
			case kind < 3:
				c := pairCalls[source.Intn(len(pairCalls))]
				r.print(fmt.Sprint(seed, " ", c.name, " ", short(a), " ", short(b)), errorName(c.call(a, b)))
			case kind < 5:
				flags := openFlags[source.Intn(len(openFlags))] | unix.O_NONBLOCK
				r.print(fmt.Sprintf("%d open %s %o", seed, short(a), flags), openAs(unix.AT_FDCWD, a, flags, uint32(source.Intn(0o10000))))
			case kind < 8:
				keys := sortedKeys(calls)
				name := keys[source.Intn(len(keys))]
				r.print(fmt.Sprint(seed, " ", name, " ", short(a)), calls[name](unix.AT_FDCWD, a))
			default:
				keys := sortedKeys(here)
				name := keys[source.Intn(len(keys))]
				if name == "truncate "+fmt.Sprint(1<<20) {
					continue
				}
				r.print(fmt.Sprint(seed, " ", name, " ", short(a)), here[name](a))
			}
		}
		r.print(fmt.Sprint(seed, " in the end"), treeDifference("", listTree(r.root)))
	}
	return r.rebuild()
}
