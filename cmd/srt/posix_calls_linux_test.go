package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spellings are the paths of calls with one path.
func (r *posixRun) spellings() []string {
	long := strings.Repeat("n", 255)
	deep := strings.Repeat("./", 2040)
	fd := func(name string) string { return fmt.Sprint("/proc/self/fd/", r.fds[name]) }
	return []string{
		"", "new", "./new", "new/", "new//", "new/.", "new/..", "new/x", "file", "file/", "file//", "file/.", "file/..", "file/x", "closed",
		"dir", "dir/", "dir/.", "dir/..", "dir/new", "dir/fresh", "dir/fresh/", "dir/back", "dir/../fresh", "empty", "empty/", "empty/.", "empty/..",
		".", "..", "./", "../", "/", "//", "/.", "/..", "link", "link/", "link/x", "dirlink", "dirlink/", "dirlink/.", "dirlink/fresh", "dirlink/../fresh",
		"dangling", "dangling/", "dangling/x", "deepdangling", "loop", "loop/", "loop/x", "linklink", "uplink", "uplink/file", "uplink/", "slashlink", "fileslash", "newslash",
		"proclink", "pipe", "pipe/", "pipe/x", "socket", "socket/", "readonly", "readonly/new", "readonly/file", "nosearch/file", "nosearch/new", "nosearch/", "nosearch/.",
		"group/new", "sticky/new", "missing/new", "missing/../new", "missing/", long, long + "n", long + "/x", "dir/" + long + "n", deep + "file", deep + "new", deep + strings.Repeat("/", 15) + "x", deep + strings.Repeat("/", 16) + "x",
		fmt.Sprint("../chains/", posixChain-2), fmt.Sprint("../chains/", posixChain-1), fmt.Sprintf("../chains/%d/", posixChain-2),
		r.root + "/new", r.root + "/file", r.root + "//dir//file", "/proc/self/cwd/new", "/proc/self/cwd", "/proc/self/cwd/", "/proc/thread-self/cwd/new", "/proc/self/root" + r.root + "/new",
		fd("dir"), fd("dir") + "/fresh", fd("dir") + "/", fd("file"), fd("file") + "/", fd("file") + "/x", fd("file:path"), fd("pipe"), fd("link:path"), fd("link:path") + "/x", "/proc/self/fd/999", "/proc/self/fd/-1", "/proc/self/fd/new",
		"/proc/new", "/proc/self/new", "/proc/self/status", "/proc/self/comm/x", "/proc/self/ns/new", "/proc/999999/cwd/new",
		"/dev/null", "/dev/null/", "/dev/null/x", "/dev/full", "/dev/stdin", "/dev/fd/999", "nul\xffname", "\x01", "sp ace/", "a\nb",
	}
}

// openFlags are tried with each spelling.
var openFlags = []int{
	unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_APPEND,
	unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC, unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, unix.O_CREAT | unix.O_EXCL,
	unix.O_EXCL | unix.O_WRONLY, unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW, unix.O_WRONLY | unix.O_NOFOLLOW, unix.O_WRONLY | unix.O_CREAT | unix.O_NOFOLLOW, unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC,
	unix.O_PATH | unix.O_CREAT, unix.O_PATH | unix.O_WRONLY, unix.O_PATH | unix.O_CREAT | unix.O_EXCL, unix.O_PATH | unix.O_WRONLY | unix.O_NOFOLLOW, unix.O_PATH | unix.O_DIRECTORY | unix.O_RDWR,
	unix.O_DIRECTORY | unix.O_WRONLY, unix.O_DIRECTORY | unix.O_CREAT, unix.O_DIRECTORY | unix.O_CREAT | unix.O_EXCL, unix.O_DIRECTORY | unix.O_TRUNC,
	unix.O_TMPFILE | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR | unix.O_EXCL, unix.O_TMPFILE, unix.O_TMPFILE | unix.O_RDWR | unix.O_CREAT, unix.O_TMPFILE | unix.O_PATH | unix.O_RDWR, 0o20000000 | unix.O_RDWR,
	unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CREAT, unix.O_RDWR | unix.O_SYNC | unix.O_CREAT, unix.O_RDWR | unix.O_DSYNC, unix.O_RDWR | unix.O_NOATIME, unix.O_RDWR | unix.O_NOCTTY | unix.O_CREAT, unix.O_RDWR | unix.O_ASYNC | unix.O_CREAT,
	unix.O_WRONLY | unix.O_CREAT | unix.O_DIRECT, 1<<30 | unix.O_RDWR, unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_APPEND,
}

// describeFD tells what an open returned.
func describeFD(fd int, err error) string {
	if err != nil {
		return errorName(err)
	}
	defer unix.Close(fd)
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	own, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if st.Mode&unix.S_IFMT == unix.S_IFIFO {
		flags &^= unix.O_NOFOLLOW // srt-init opens what it holds already
	}
	if st.Ino == 1 { // the root of /proc has a link for each process
		st.Nlink = 0
	}
	_, data := unix.Pread(fd, make([]byte, 1), 0)
	return fmt.Sprintf("fd flags %o %d mode %o links %d size %d %s %s", flags, own, st.Mode, st.Nlink, st.Size, errorName(err), errorName(data))
}

func openAs(dirfd int, path string, flags int, mode uint32) string {
	return describeFD(unix.Openat(dirfd, path, flags, mode))
}

// creat makes the call of that name, which has a number of its own on amd64.
func creat(path string) string {
	if legacyCreat == 0 {
		return openAs(unix.AT_FDCWD, path, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, 0o6644)
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return errorName(err)
	}
	fd, _, e := unix.Syscall(legacyCreat, uintptr(unsafe.Pointer(p)), 0o6644, 0)
	if e != 0 {
		return errorName(e)
	}
	return describeFD(int(fd), nil)
}

// onePathCalls are made with every spelling, relative to a directory.
func onePathCalls() map[string]func(dirfd int, path string) string {
	calls := map[string]func(int, string) string{
		"rmdir":          func(d int, p string) string { return errorName(unix.Unlinkat(d, p, unix.AT_REMOVEDIR)) },
		"unlink":         func(d int, p string) string { return errorName(unix.Unlinkat(d, p, 0)) },
		"unlink bad":     func(d int, p string) string { return errorName(unix.Unlinkat(d, p, 0x1000)) },
		"mkdir 777":      func(d int, p string) string { return errorName(unix.Mkdirat(d, p, 0o777)) },
		"mkdir 7000":     func(d int, p string) string { return errorName(unix.Mkdirat(d, p, 0o7000)) },
		"mkdir big":      func(d int, p string) string { return errorName(unix.Mkdirat(d, p, 0xffff)) },
		"symlink":        func(d int, p string) string { return errorName(unix.Symlinkat("some/text", d, p)) },
		"symlink empty":  func(d int, p string) string { return errorName(unix.Symlinkat("", d, p)) },
		"symlink long":   func(d int, p string) string { return errorName(unix.Symlinkat(strings.Repeat("t", 4095), d, p)) },
		"symlink longer": func(d int, p string) string { return errorName(unix.Symlinkat(strings.Repeat("t", 4096), d, p)) },
	}
	for name, mode := range map[string]uint32{"fifo": unix.S_IFIFO | 0o666, "file": unix.S_IFREG | 0o666, "plain": 0o4777, "socket": unix.S_IFSOCK | 0o666,
		"chr": unix.S_IFCHR | 0o666, "blk": unix.S_IFBLK | 0o666, "dir": unix.S_IFDIR | 0o777, "link": unix.S_IFLNK | 0o777, "odd": 0o30666} {
		calls["mknod "+name] = func(d int, p string) string { return errorName(unix.Mknodat(d, p, mode, 0x103)) }
	}
	return calls
}

// cwdCalls have no directory argument.
func cwdCalls() map[string]func(string) string {
	calls := map[string]func(string) string{
		"creat": creat,
	}
	for _, length := range []int64{0, 3, 1 << 20, -1, 1 << 62} {
		calls[fmt.Sprint("truncate ", length)] = func(p string) string { return errorName(unix.Truncate(p, length)) }
	}
	for _, mode := range []uint32{0o600, 0o7777, 0} {
		calls[fmt.Sprintf("chmod %o", mode)] = func(p string) string { return errorName(unix.Chmod(p, mode)) }
	}
	calls["chown none"] = func(p string) string { return errorName(unix.Chown(p, -1, -1)) }
	calls["chown own"] = func(p string) string { return errorName(unix.Chown(p, os.Getuid(), os.Getgid())) }
	calls["lchown own"] = func(p string) string { return errorName(unix.Lchown(p, os.Getuid(), os.Getgid())) }
	calls["utimens"] = func(p string) string {
		return errorName(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 5}, {Sec: 6}}, 0)) + times(p)
	}
	calls["utimens omit"] = func(p string) string {
		return errorName(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}, 0))
	}
	calls["utimens link"] = func(p string) string {
		return errorName(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 5}, {Sec: 6}}, unix.AT_SYMLINK_NOFOLLOW)) + times(p)
	}
	calls["utimens wrong"] = func(p string) string {
		return errorName(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Nsec: 2e9}, {Nsec: 1}}, 0))
	}
	return calls
}

func times(path string) string {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mtim.Sec > 1000 || st.Atim.Sec > 1000 {
		return ""
	}
	return fmt.Sprint(" ", st.Atim.Sec, " ", st.Mtim.Sec)
}

func (r *posixRun) onePath() error {
	calls, here := onePathCalls(), cwdCalls()
	for i := range r.spellings() {
		for _, flags := range openFlags {
			path := r.spellings()[i] // descriptors are opened anew with the tree
			if flags&unix.O_TMPFILE == unix.O_TMPFILE && shared(path) {
				continue
			}
			if err := r.do(fmt.Sprintf("open %s %o", short(path), flags), func() string { return openAs(unix.AT_FDCWD, path, flags, 0o6666) }); err != nil {
				return err
			}
		}
		for _, name := range sortedKeys(calls) {
			path := r.spellings()[i]
			if shared(path) && (strings.HasSuffix(name, "link") || name == "rmdir") {
				continue // not the host's devices
			}
			if err := r.do(name+" "+short(path), func() string { return calls[name](unix.AT_FDCWD, path) }); err != nil {
				return err
			}
		}
		for _, name := range sortedKeys(here) {
			path := r.spellings()[i]
			if shared(path) {
				continue
			}
			if err := r.do(name+" "+short(path), func() string { return here[name](path) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// shared reports whether a path leads to what both runs have in common, which
// neither must change.
func shared(path string) bool {
	return strings.HasPrefix(path, "/dev") || strings.HasPrefix(path, "/proc") && !strings.HasPrefix(path, "/proc/self/cwd/") || strings.Trim(path, "/.") == ""
}

// short names a spelling in the output, the same in every run.
func short(path string) string {
	if strings.HasPrefix(path, "/proc/self/fd/") {
		path = "/proc/self/fd/N" + strings.TrimLeft(path[len("/proc/self/fd/"):], "0123456789")
	}
	if len(path) > 60 {
		return fmt.Sprintf("%q…%d", path[:8]+path[len(path)-8:], len(path))
	}
	return fmt.Sprintf("%q", path)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// pairSpellings are the paths of calls with two.
func (r *posixRun) pairSpellings() []string {
	fd := func(name string) string { return fmt.Sprint("/proc/self/fd/", r.fds[name]) }
	return []string{
		"", "new", "new/", "new/.", "file", "file/", "closed", "dir", "dir/", "dir/.", "dir/sub", "dir/sub/fresh", "dir/file", "dir/fresh", "dir/../fresh", "empty", "empty/", ".", "..", "link", "link/", "dirlink", "dirlink/", "dirlink/fresh",
		"dangling", "dangling/", "loop", "loop/", "linklink", "fileslash", "proclink", "pipe", "socket", "readonly/file", "readonly/new", "nosearch/file", "missing/x", "file/x", strings.Repeat("n", 256), r.root, r.root + "/new",
		"/proc/self/cwd/fresh", fd("file"), "/proc/new", fmt.Sprint("../chains/", posixChain-2), fmt.Sprint("../chains/", posixChain-1),
	}
}

var pairCalls = []struct {
	name string
	call func(from, to string) error
}{
	{"rename", func(a, b string) error { return unix.Renameat(unix.AT_FDCWD, a, unix.AT_FDCWD, b) }},
	{"rename noreplace", func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	}},
	{"rename exchange", func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	}},
	{"rename both", func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE)
	}},
	{"rename whiteout", func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_WHITEOUT)
	}},
	{"link", func(a, b string) error { return unix.Linkat(unix.AT_FDCWD, a, unix.AT_FDCWD, b, 0) }},
	{"link follow", func(a, b string) error {
		return unix.Linkat(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.AT_SYMLINK_FOLLOW)
	}},
	{"link empty", func(a, b string) error { return unix.Linkat(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.AT_EMPTY_PATH) }},
	{"link bad", func(a, b string) error { return unix.Linkat(unix.AT_FDCWD, a, unix.AT_FDCWD, b, 1) }},
}

func (r *posixRun) twoPaths() error {
	for i := range r.pairSpellings() {
		for k := range r.pairSpellings() {
			for _, c := range pairCalls {
				if strings.HasPrefix(r.pairSpellings()[i], "/proc") && strings.HasPrefix(r.pairSpellings()[k], "/proc") {
					continue // what procfs says depends on who asks
				}
				from, to := r.pairSpellings()[i], r.pairSpellings()[k]
				if err := r.do(fmt.Sprint(c.name, " ", short(from), " ", short(to)), func() string { return errorName(c.call(from, to)) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// directories starts from every kind of descriptor.
func (r *posixRun) directories() error {
	calls := onePathCalls()
	bases := map[string]func() int{"closed": func() int { return 999 }, "-1": func() int { return -1 }, "-7": func() int { return -7 }, "big": func() int { return 1 << 30 }}
	for name := range r.fds {
		bases[name] = func() int { return r.fds[name] }
	}
	for _, base := range sortedKeys(bases) {
		for _, path := range []string{"", "new", "new/", ".", "..", "sub", "file", "../fresh", "back", "self", "self/cwd/fresh", "cwd", "cwd/fresh", "cwd/file", "fd/999", "fd/x", "thread-self/cwd/fresh", "1", r.root + "/new"} {
			if base == "/proc" && strings.HasPrefix(path, "..") {
				continue // not in the host's root
			}
			for _, flags := range []int{unix.O_WRONLY, unix.O_CREAT | unix.O_WRONLY, unix.O_CREAT | unix.O_EXCL, unix.O_TMPFILE | unix.O_RDWR, unix.O_PATH | unix.O_CREAT} {
				if err := r.do(fmt.Sprintf("openat %s %s %o", base, short(path), flags), func() string { return openAs(bases[base](), path, flags, 0o666) }); err != nil {
					return err
				}
			}
			for _, name := range sortedKeys(calls) {
				if err := r.do(fmt.Sprint(name, " ", base, " ", short(path)), func() string { return calls[name](bases[base](), path) }); err != nil {
					return err
				}
			}
			for _, flags := range []int{0, unix.AT_SYMLINK_FOLLOW, unix.AT_EMPTY_PATH} {
				if err := r.do(fmt.Sprintf("linkat %s %s %x", base, short(path), flags), func() string {
					return errorName(unix.Linkat(bases[base](), path, unix.AT_FDCWD, "hard", flags)) + errorName(unix.Linkat(unix.AT_FDCWD, "file", bases[base](), path, flags))
				}); err != nil {
					return err
				}
			}
			if err := r.do(fmt.Sprint("renameat ", base, " ", short(path)), func() string {
				return errorName(unix.Renameat(bases[base](), path, unix.AT_FDCWD, "moved")) + errorName(unix.Renameat(unix.AT_FDCWD, "file", bases[base](), path))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// memory passes pointers that cannot be read, wholly or in part.
func (r *posixRun) memory() error {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(m)
	copy(m[page-4:], "new\x00")
	copy(m[page-64:], "abc")
	if err := unix.Mprotect(m[page:], unix.PROT_NONE); err != nil {
		return err
	}
	at := func(offset int) uintptr { return uintptr(unsafe.Pointer(&m[0])) + uintptr(offset) }
	file, other := append([]byte("file"), 0), append([]byte("moved"), 0)
	good := uintptr(unsafe.Pointer(&file[0]))
	second := uintptr(unsafe.Pointer(&other[0]))
	places := map[string]uintptr{"null": 0, "one": 1, "end": at(page - 4), "cut": at(page - 3), "past": at(page), "kernel": 0xffffffff80000000, "noncanonical": 1 << 62, "last": ^uintptr(0)}
	for _, name := range sortedKeys(places) {
		p := places[name]
		if name == "cut" { // "ew" and its end
			m[page-1] = 'w'
		}
		const cwd = ^uintptr(99) // AT_FDCWD
		calls := map[string]func() unix.Errno{
			"openat":   func() unix.Errno { return raw(unix.SYS_OPENAT, cwd, p, unix.O_CREAT|unix.O_WRONLY, 0o600) },
			"openat x": func() unix.Errno { return raw(unix.SYS_OPENAT, 999, p, unix.O_CREAT|unix.O_DIRECTORY, 0o600) },
			"mkdirat":  func() unix.Errno { return raw(unix.SYS_MKDIRAT, cwd, p, 0o700) },
			"mknodat":  func() unix.Errno { return raw(unix.SYS_MKNODAT, cwd, p, unix.S_IFIFO|0o600, 0) },
			"mknod x":  func() unix.Errno { return raw(unix.SYS_MKNODAT, cwd, p, unix.S_IFDIR|0o600, 0) },
			"unlinkat": func() unix.Errno { return raw(unix.SYS_UNLINKAT, cwd, p, 0) },
			"unlink x": func() unix.Errno { return raw(unix.SYS_UNLINKAT, cwd, p, 1) },
			"symlink":  func() unix.Errno { return raw(unix.SYS_SYMLINKAT, good, cwd, p) },
			"symlink2": func() unix.Errno { return raw(unix.SYS_SYMLINKAT, p, cwd, second) },
			"symlink3": func() unix.Errno { return raw(unix.SYS_SYMLINKAT, p, 999, good) },
			"link":     func() unix.Errno { return raw(unix.SYS_LINKAT, cwd, p, cwd, second, 0) },
			"link2":    func() unix.Errno { return raw(unix.SYS_LINKAT, cwd, good, cwd, p, 0) },
			"link x":   func() unix.Errno { return raw(unix.SYS_LINKAT, cwd, p, 999, p, 1) },
			"rename":   func() unix.Errno { return raw(unix.SYS_RENAMEAT2, cwd, p, cwd, second, 0) },
			"rename2":  func() unix.Errno { return raw(unix.SYS_RENAMEAT2, cwd, good, cwd, p, 0) },
			"rename x": func() unix.Errno { return raw(unix.SYS_RENAMEAT2, 999, p, 999, p, 0xff) },
			"truncate": func() unix.Errno { return raw(unix.SYS_TRUNCATE, p, 1, 0) },
			"trunc x":  func() unix.Errno { return raw(unix.SYS_TRUNCATE, p, ^uintptr(0), 0) },
			"chmod":    func() unix.Errno { return raw(unix.SYS_FCHMODAT, cwd, p, 0o600) },
		}
		for _, c := range sortedKeys(calls) {
			if err := r.do(fmt.Sprint("memory ", c, " ", name), func() string { return errorNumber(calls[c]()) }); err != nil {
				return err
			}
		}
		if name == "cut" {
			m[page-1] = 0
		}
	}
	runtime.KeepAlive(file)
	runtime.KeepAlive(other)
	return nil
}

func raw(nr uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	got, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if e == 0 && nr == unix.SYS_OPENAT {
		unix.Close(int(got))
	}
	return e
}

func errorNumber(e unix.Errno) string {
	if e == 0 {
		return "ok"
	}
	return errorName(e)
}
