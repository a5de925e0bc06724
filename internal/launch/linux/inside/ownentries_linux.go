package inside

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// To itself srt-init may open everything, its memory too: the kernel asks who acts,
// and that is srt-init, not the caller. So nothing of its own entries in /proc is
// entered or opened for a caller, whatever way leads there. Names are judged where
// they are walked, see checkProcName. All else that leads somewhere is a descriptor
// of a process or a link of /proc, and what it refers to is judged here.

// reached judges an object that a descriptor of the caller or a link of /proc
// refers to.
func (g *guard) reached(c *call, fd int) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	proc := g.isProc(fd, st.Dev)
	if g.ownMounts != nil && (proc || st.Mode&unix.S_IFMT == unix.S_IFDIR) && !g.ownMounts.hold(fd) {
		return unix.EACCES // paths say nothing there
	}
	if !proc {
		return 0
	}
	return g.judgeEntry(c, fd)
}

// judgeEntry judges an object of a /proc by the process that it belongs to.
func (g *guard) judgeEntry(c *call, fd int) unix.Errno {
	name, err := os.Readlink(descriptorPath(fd))
	if err != nil {
		return errnoOf(err)
	}
	if name == "/proc" {
		return 0
	}
	inside, ok := strings.CutPrefix(name, "/proc/")
	if !ok {
		return unix.EACCES // of another PID namespace, whose numbers say nothing here
	}
	first, _, _ := strings.Cut(inside, "/")
	return g.checkProcess(c, first)
}

// follow opens what a link of /proc leads to. Commands of root that may make
// namespaces keep a capability, and for that alone the kernel keeps the guard from
// their links, where it has none in effect.
func (g *guard) follow(c *call, dir int, name string) (fd int, err error) {
	open := func() error {
		fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	}
	if open() == unix.EACCES && g.userNamespace != "" && g.ofCaller(c, dir) {
		err = g.privileged(open)
	}
	return fd, err
}

// ofCaller reports whether a directory of /proc belongs to the caller's process.
func (g *guard) ofCaller(c *call, dir int) bool {
	name, err := os.Readlink(descriptorPath(dir))
	inside, ok := strings.CutPrefix(name, "/proc/")
	if err != nil || !ok {
		return false
	}
	first, _, _ := strings.Cut(inside, "/")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	theirs, e1 := threadGroup(pid)
	own, e2 := threadGroup(c.pid)
	return e1 == 0 && e2 == 0 && theirs == own && g.listener.valid(c.id)
}

// isProc reports whether a file system, known by its device number, is a /proc.
func (g *guard) isProc(fd int, dev uint64) bool {
	proc, known := g.proc[dev]
	if !known {
		proc = onProc(fd)
		if g.proc != nil {
			g.proc[dev] = proc
		}
	}
	return proc
}

// checkProcName refuses the way into srt-init's own entries. It comes after the
// entry was opened: a thread that is made later has another one.
func (g *guard) checkProcName(c *call, dir int, name string) unix.Errno {
	if !isProcRoot(dir) {
		return 0
	}
	var theirs, own unix.Stat_t
	if unix.Fstat(dir, &theirs) != nil || unix.Fstat(g.initTask, &own) != nil || theirs.Dev != own.Dev {
		return unix.EACCES
	}
	return g.checkProcess(c, name)
}

// checkProcess refuses srt-init's entries. Where no PID namespace hides other
// processes it refuses every one but the caller's own: srt-init could open what
// Landlock keeps the caller from.
func (g *guard) checkProcess(c *call, name string) unix.Errno {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	if g.plain {
		theirs, e1 := threadGroup(pid)
		own, e2 := threadGroup(c.pid)
		if e1 != 0 || e2 != 0 || theirs != own || !g.listener.valid(c.id) {
			return unix.EACCES
		}
		return 0
	}
	var st unix.Stat_t
	if unix.Fstatat(g.initTask, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EACCES
	}
	return 0
}

func onProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// procRootInode is PROC_ROOT_INO of <linux/proc_ns.h>.
const procRootInode = 1

func isProcRoot(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Ino == procRootInode
}

// ownMounts are the mounts of srt-init's namespace. A command that may make others
// can give a process that did not a descriptor from there, where anything may be
// mounted at any name, srt-init's entries in /proc, too.
type ownMounts struct {
	known map[uint64]bool // by the number that the kernel never gives again, Linux 6.8
}

// statxUniqueMount is STATX_MNT_ID_UNIQUE of <linux/stat.h>.
const statxUniqueMount = 0x4000

// hold reports whether an object was reached through one of them.
func (m *ownMounts) hold(fd int) bool {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxUniqueMount, &st) != nil {
		return false
	}
	unique, lasting := st.Mnt_id, st.Mask&statxUniqueMount != 0
	if lasting && m.known[unique] {
		return true
	}
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 || !isMounted(st.Mnt_id) {
		return false
	}
	if lasting {
		m.known[unique] = true
	}
	return true
}

// isMounted looks for a mount in proc_pid_mountinfo(5).
func isMounted(id uint64) bool {
	list, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false
	}
	first := strconv.AppendUint(nil, id, 10)
	for line := range bytes.Lines(list) {
		if number, _, _ := bytes.Cut(line, []byte(" ")); bytes.Equal(number, first) {
			return true
		}
	}
	return false
}
