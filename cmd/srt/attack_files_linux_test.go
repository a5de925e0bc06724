package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The techniques of this file attack invariant 2, "no write lands outside the
// write roots", and invariant 3, "what is denied is unreadable under every name".
//
// $ATTACK_OUTSIDE is a directory of the caller's outside the write roots with a
// file "victim" in it; the working directory is a write root.

func outside(name string) string { return filepath.Join(os.Getenv("ATTACK_OUTSIDE"), name) }

// fileTechniques write, create or remove outside.
var fileTechniques = []technique{
	{"writes: directly", func() error { return open(outside("victim"), unix.O_WRONLY) }},
	{"writes: truncating", func() error { return unix.Truncate(outside("victim"), 3) }},
	{"writes: creating", func() error { return open(outside("new1"), unix.O_WRONLY|unix.O_CREAT) }},
	{"writes: through a symbolic link", throughLink},
	{"writes: through two symbolic links", throughTwoLinks},
	{"writes: through the root of a process", func() error { return open("/proc/self/root"+outside("victim"), unix.O_WRONLY) }},
	{"writes: through the root of a thread", func() error { return open("/proc/thread-self/root"+outside("new2"), unix.O_WRONLY|unix.O_CREAT) }},
	{"writes: through the directory of a process", func() error {
		return open("/proc/self/cwd/../outside/new3", unix.O_WRONLY|unix.O_CREAT)
	}},
	{"writes: through an open directory", throughDirectory},
	{"writes: a file opened for reading, again", func() error { return reopen("/proc/self/fd/%d") }},
	{"writes: a file opened for reading, by /dev/fd", func() error { return reopen("/dev/fd/%d") }},
	{"writes: a file opened for nothing, again", reopenPath},
	{"writes: openat2 with every flag", everyResolveFlag},
	{"writes: a file without a name", func() error { return open(outside("."), unix.O_TMPFILE|unix.O_RDWR) }},
	{"writes: naming a nameless file outside", nameOutside},
	{"writes: naming a nameless file outside, by descriptor", nameOutsideByDescriptor},
	{"writes: hard link inward", func() error { return writeLinked(unix.AT_FDCWD, outside("victim"), 0) }},
	{"writes: hard link inward, by descriptor", linkDescriptor},
	{"writes: hard link outward", func() error { return moveOut(unix.Link) }},
	{"writes: rename outward", func() error { return moveOut(unix.Rename) }},
	{"writes: rename inward", func() error { return unix.Rename(outside("moved"), "moved") }},
	{"writes: exchange", exchangeOut},
	{"writes: removing", func() error { return unix.Unlink(outside("removed")) }},
	{"writes: removing a directory", func() error { return unix.Rmdir(outside("removeddir")) }},
	{"writes: directory", func() error { return unix.Mkdir(outside("newdir"), 0o755) }},
	{"writes: symbolic link", func() error { return unix.Symlink("/etc/passwd", outside("newlink")) }},
	{"writes: FIFO", func() error { return unix.Mknod(outside("newfifo"), unix.S_IFIFO|0o600, 0) }},
	{"writes: socket inode", func() error { return unix.Mknod(outside("newsocket"), unix.S_IFSOCK|0o600, 0) }},
	{"writes: swapping a directory for a link", swapParent},
}

func throughLink() error {
	_ = os.Remove("link")
	if err := os.Symlink(outside("victim"), "link"); err != nil {
		return err
	}
	return open("link", unix.O_WRONLY|unix.O_CREAT)
}

func throughTwoLinks() error {
	_, _ = os.Remove("dirlink"), os.Remove("link2")
	if err := errors.Join(os.Symlink(outside("."), "dirlink"), os.Symlink("dirlink/new4", "link2")); err != nil {
		return err
	}
	return open("link2", unix.O_WRONLY|unix.O_CREAT)
}

func throughDirectory() error {
	fd, err := unix.Open(outside("."), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	first := open(fmt.Sprintf("/proc/self/fd/%d/victim", fd), unix.O_WRONLY)
	if first == nil {
		return nil
	}
	out, err := unix.Openat(fd, "new5", unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err == nil {
		unix.Close(out)
	}
	return err
}

func reopen(format string) error {
	fd, err := unix.Open(outside("victim"), unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return open(fmt.Sprintf(format, fd), unix.O_WRONLY)
}

func reopenPath() error {
	fd, err := unix.Open(outside("victim"), unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return open(fmt.Sprintf("/proc/thread-self/fd/%d", fd), unix.O_RDWR)
}

// resolveCached is RESOLVE_CACHED of <linux/openat2.h>.
const resolveCached = 0x20

func everyResolveFlag() error {
	dir, err := unix.Open(outside("."), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for _, flag := range []uint64{0, unix.RESOLVE_NO_XDEV, unix.RESOLVE_NO_MAGICLINKS, unix.RESOLVE_NO_SYMLINKS, unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT, resolveCached} {
		for _, flags := range []uint64{unix.O_WRONLY, unix.O_RDWR | unix.O_CREAT} {
			how := &unix.OpenHow{Flags: flags, Resolve: flag}
			if flags&unix.O_CREAT != 0 {
				how.Mode = 0o600
			}
			fd, e := unix.Openat2(dir, "victim", how)
			if e == nil {
				unix.Close(fd)
				return nil
			}
			err = e
		}
	}
	return err
}

func namelessFile() (int, error) { return unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o600) }

func nameOutside() error {
	fd, err := namelessFile()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, outside("named1"), unix.AT_SYMLINK_FOLLOW)
}

func nameOutsideByDescriptor() error {
	fd, err := namelessFile()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(fd, "", unix.AT_FDCWD, outside("named2"), unix.AT_EMPTY_PATH)
}

// writeLinked gives a file outside a name inside and writes through that.
func writeLinked(dir int, name string, flags int) error {
	_ = os.Remove("linked")
	if err := unix.Linkat(dir, name, unix.AT_FDCWD, "linked", flags); err != nil {
		return err
	}
	defer os.Remove("linked")
	return open("linked", unix.O_WRONLY)
}

func linkDescriptor() error {
	fd, err := unix.Open(outside("victim"), unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeLinked(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_SYMLINK_FOLLOW)
}

func moveOut(move func(from, to string) error) error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return move(name, outside("moved"+filepath.Base(name)))
}

func exchangeOut() error {
	name, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(name)
	return unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, outside("victim"), unix.RENAME_EXCHANGE)
}

// swapParent exchanges a directory with a link that leads outside while another
// thread creates a file below it.
func swapParent() error {
	_, _ = os.RemoveAll("swap"), os.Remove("swaplink")
	if err := errors.Join(os.Mkdir("swap", 0o700), os.Symlink(outside("."), "swaplink")); err != nil {
		return err
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, "swap", unix.AT_FDCWD, "swaplink", unix.RENAME_EXCHANGE)
			}
		}
	}()
	result := error(unix.EPERM)
	end := time.Now().Add(500 * time.Millisecond)
	for result != nil && time.Now().Before(end) {
		_ = open("swap/raced", unix.O_WRONLY|unix.O_CREAT)
		if unix.Access(outside("raced"), unix.F_OK) == nil {
			result = nil
		}
	}
	close(stop)
	<-done
	return result
}

// metadataTechniques change what is known about a file outside.
var metadataTechniques = []technique{
	{"metadata: chmod", func() error { return unix.Chmod(outside("victim"), 0o640) }},
	{"metadata: fchmod of a file opened for reading", func() error {
		return withVictim(unix.O_RDONLY, func(fd int) error { return unix.Fchmod(fd, 0o640) })
	}},
	{"metadata: chmod through /proc of a file opened for nothing", func() error {
		return withVictim(unix.O_PATH, func(fd int) error { return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o640) })
	}},
	{"metadata: fchmodat2 of a file opened for nothing", func() error {
		return withVictim(unix.O_PATH, func(fd int) error { return emptyPath(unix.SYS_FCHMODAT2, fd, 0o640, unix.AT_EMPTY_PATH) })
	}},
	{"metadata: chown", func() error { return unix.Chown(outside("victim"), os.Getuid(), os.Getgid()) }},
	{"metadata: fchownat of a file opened for nothing", func() error {
		return withVictim(unix.O_PATH, func(fd int) error { return unix.Fchownat(fd, "", os.Getuid(), -1, unix.AT_EMPTY_PATH) })
	}},
	{"metadata: times", func() error { return os.Chtimes(outside("victim"), time.Unix(1, 0), time.Unix(1, 0)) }},
	{"metadata: times of a file opened for reading", func() error {
		return withVictim(unix.O_RDONLY, func(fd int) error { return call(unix.SYS_UTIMENSAT, uint64(fd), 0) })
	}},
	{"metadata: times of a file opened for nothing", func() error {
		return withVictim(unix.O_PATH, func(fd int) error { return emptyPath(unix.SYS_UTIMENSAT, fd, 0, unix.AT_EMPTY_PATH) })
	}},
	{"metadata: extended attribute", func() error { return unix.Setxattr(outside("victim"), "user.srt", []byte("x"), 0) }},
	{"metadata: extended attribute of a file opened for reading", func() error {
		return withVictim(unix.O_RDONLY, func(fd int) error { return unix.Fsetxattr(fd, "user.srt", []byte("x"), 0) })
	}},
	{"metadata: flags", func() error {
		return withVictim(unix.O_RDONLY, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, fsNoDump) })
	}},
	{"metadata: file_setattr", fileSetAttr},
}

const (
	fsNoDump       = 0x40 // FS_NODUMP_FL, which every owner may set
	sysFileSetAttr = 469  // file_setattr(2), Linux 6.17
)

func withVictim(flags int, change func(fd int) error) error {
	fd, err := unix.Open(outside("victim"), flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return change(fd)
}

// emptyPath makes a call of the form (descriptor, "", value, flags).
func emptyPath(nr uintptr, fd int, value, flags uint64) error {
	empty := [1]byte{}
	_, _, e := unix.Syscall6(nr, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(value), uintptr(flags), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func fileSetAttr() error {
	path, err := unix.BytePtrFromString(outside("victim"))
	if err != nil {
		return err
	}
	attr := [24]byte{} // struct file_attr: all flags cleared
	cwd := unix.AT_FDCWD
	_, _, e := unix.Syscall6(sysFileSetAttr, uintptr(cwd), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&attr)), uintptr(len(attr)), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// readTechniques read the file "secret/key", whose directory is denied, or the
// file "plain", which is denied itself. Reading an empty directory is no success.
var readTechniques = []technique{
	{"reads: directly", func() error { return readSecret("secret/key") }},
	{"reads: denied file", func() error { return readSecret("plain") }},
	{"reads: through the root of a process", func() error { return readSecret("/proc/self/root" + absolute("secret/key")) }},
	{"reads: through the directory of a process", func() error { return readSecret("/proc/self/cwd/secret/key") }},
	{"reads: through the root of process 1", func() error { return readSecret("/proc/1/root" + absolute("secret/key")) }},
	{"reads: through a symbolic link", func() error {
		_ = os.Remove("to")
		return errors.Join(os.Symlink("plain", "to"), readSecret("to"))
	}},
	{"reads: by a hard link", func() error {
		if err := os.Link("plain", "plain2"); err != nil {
			return err
		}
		defer os.Remove("plain2")
		return readSecret("plain2")
	}},
	{"reads: after renaming it", func() error {
		if err := os.Rename("plain", "plain3"); err != nil {
			return err
		}
		defer os.Rename("plain3", "plain")
		return readSecret("plain3")
	}},
	{"reads: after renaming its directory", func() error {
		if err := os.Rename("secret", "secret2"); err != nil {
			return err
		}
		defer os.Rename("secret2", "secret")
		return readSecret("secret2/key")
	}},
	{"reads: after exchanging its directory", func() error {
		_ = os.Mkdir("other", 0o700)
		defer unix.Renameat2(unix.AT_FDCWD, "secret", unix.AT_FDCWD, "other", unix.RENAME_EXCHANGE)
		if err := unix.Renameat2(unix.AT_FDCWD, "secret", unix.AT_FDCWD, "other", unix.RENAME_EXCHANGE); err != nil {
			return err
		}
		return readSecret("other/key")
	}},
	{"reads: by handle", readByHandle},
}

func absolute(name string) string {
	dir, err := os.Getwd()
	if err != nil {
		return name
	}
	return filepath.Join(dir, name)
}

func readSecret(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), "the secret") {
		err = errors.New("not the secret")
	}
	return err
}

// readByHandle asks for the handle of the denied file's directory, counts up
// from it and opens what it finds.
func readByHandle() error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "plain", 0)
	if err != nil {
		return err
	}
	mount, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	fd, err := unix.OpenByHandleAt(mount, handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return readSecret(fmt.Sprintf("/proc/self/fd/%d", fd))
}
