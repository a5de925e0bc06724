package inside

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/protected"
)

// guard performs the calls that can create a name. It does them itself, on its
// own copy of the arguments and with the caller's rights, instead of letting
// the kernel read the caller's memory a second time: a caller that changes the
// path meanwhile changes nothing.
//
// One thread does everything but opens that may block. It holds no effective
// capability while it acts, so the kernel judges it exactly like the caller.
type guard struct {
	listener  *listener
	listeners chan *listener // on which the guard's thread gets its own
	prepared  chan error     // what became of that thread
	control   int
	names     map[object][]GuardedName
	standing  *protected.Directories
	kept      *keptPaths
	root      int // O_PATH descriptor of the sandbox's root
	initTask  int // O_PATH descriptor of /proc/1/task
	// descriptors is an O_PATH descriptor of /proc/1/fd.
	descriptors int
	creator     *creator
	// rules decide about files where no mount does; nil where mounts do.
	rules        *pathRules
	sharedMemory sharedMemory
	reads        *readTrace // nil where opens for reading are not handed over
	forwards     []Forward
	sockets      *sockets
	direct       *direct
	// repositories are those that the command makes; nil if nobody looks at them.
	repositories *repositories
	// plain marks a guard without capabilities of its own.
	plain bool
	// userNamespace is that of the sandbox, set only where the command may make
	// others: a caller in another one has its own idea of every path.
	userNamespace string
	ownMounts     *ownMounts    // nil where there are no others
	special       chan struct{} // slots for opens that may block
	connects      chan struct{} // slots for connections that may, each with a thread
	held          chan struct{} // slots for calls that wait for one of those, or for an answer
	// What was reported: refusals of the guard's own, and errors of the kernel.
	violations, errors reports
	missedBefore       missedConnections
	// serving is held during each call, and for good once nothing may change any
	// more: a caller can be killed while its call is being performed.
	serving sync.Mutex
	// The rest belongs to the guard's thread alone.
	tasks tasks
	mask  int             // the thread's file mode mask
	proc  map[uint64]bool // file systems by device number: is it a /proc? nil to ask each time
}

// object identifies a directory whatever path leads to it.
type object struct{ dev, ino uint64 }

const (
	maxSpecialOpens = 128
	maxConnects     = 128
	maxHeld         = 4096
	maxSymlinks     = 40
)

// guardCapabilities stay permitted, to be raised for single steps.
const guardCapabilities = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN

// startGuard makes a guard, whose thread gets ready while the caller's becomes the
// command's.
func startGuard(control int, s *Spec, d *direct) *guard {
	g := &guard{
		listeners: make(chan *listener), prepared: make(chan error, 1), control: control, names: map[object][]GuardedName{},
		violations: reports{}, errors: reports{},
		special: make(chan struct{}, maxSpecialOpens), connects: make(chan struct{}, maxConnects), held: make(chan struct{}, maxHeld),
	}
	g.sockets, g.direct = newSockets(s.Sockets, s.Filter.UnixSockets), d
	for _, n := range s.Names {
		if n.Dir == "" {
			continue // known by its path only
		}
		key := object{n.Dev, n.Ino}
		g.names[key] = append(g.names[key], n)
	}
	g.kept = newKeptPaths(s.Names, s.Landlock == nil)
	var ok bool
	if g.standing, ok = protected.DecodeDirectories(s.Standing); !ok {
		fail(control, errBadSpec)
	}
	if s.Repositories {
		g.repositories = newRepositories()
	}
	if s.Filter.NestedNamespaces {
		g.userNamespace, _ = os.Readlink("/proc/self/ns/user")
		g.ownMounts = &ownMounts{known: map[uint64]bool{}}
	} else if s.Landlock == nil {
		// Nobody but srt-init can mount here, so no number changes its meaning.
		g.proc = map[uint64]bool{}
	}
	if s.Filter.Trace {
		g.reads = newReadTrace(s.Plan)
	}
	if s.Landlock != nil {
		g.forwards, g.plain = s.Landlock.Forwards, true
		g.rules, g.sharedMemory = newPathRules(s.Landlock, s.Creatable), sharedMemory{}
	}
	if err := enableWaking(); err != nil {
		fail(control, err)
	}
	go g.loop(s.Creatable)
	return g
}

// listen lets the guard serve the calls that come to a descriptor of seccomp(2).
// When it returns the guard is able to.
func (g *guard) listen(fd int) {
	if err := <-g.prepared; err != nil {
		fail(g.control, err)
	}
	g.listeners <- newListener(fd)
}

// fail ends the sandbox: without its guard nothing may go on.
func fail(control int, err error) {
	_ = SendMessage(control, MessageFailed, []byte("guard\x00"+err.Error()))
	os.Exit(1)
}

func (g *guard) loop(creatable []CreatablePath) {
	runtime.LockOSThread()
	err := g.prepareThread(creatable)
	g.prepared <- err
	if err != nil {
		return
	}
	g.listener = <-g.listeners
	var n notification
	for {
		if err := g.listener.receive(&n); err != nil {
			if err != errNoCallers {
				fail(g.control, err)
			}
			return
		}
		g.serving.Lock()
		g.serve(&n)
		g.serving.Unlock()
	}
}

// stop ends the serving of calls. It reports whether the last one is over.
func (g *guard) stop() bool {
	for deadline := time.Now().Add(killTimeout); !g.serving.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// idle ends the serving of calls if none is being performed, and reports that.
func (g *guard) idle() bool {
	return g.serving.TryLock() && len(g.special)+len(g.connects)+len(g.held) == 0
}

// prepareThread gives the guard's thread a file mode mask of its own and takes
// its effective capabilities away.
func (g *guard) prepareThread(creatable []CreatablePath) error {
	if err := blockSignals(); err != nil {
		return err
	}
	var err error
	if g.root, err = openObject("/"); err != nil {
		return err
	}
	if g.initTask, err = openObject(fmt.Sprintf("/proc/%d/task", os.Getpid())); err != nil {
		return err
	}
	if g.descriptors, err = openObject(fmt.Sprintf("/proc/%d/fd", os.Getpid())); err != nil {
		return err
	}
	switch err := unix.Unshare(unix.CLONE_FS); {
	case err == nil:
		g.mask = 0o077
		unix.Umask(g.mask)
	case !g.plain:
		return fmt.Errorf("separating the guard's file mode mask: %w", err)
	}
	// Containers may refuse the call. The mask is then that of the whole process,
	// in which nothing else creates files, and is changed only for single calls.
	if g.plain {
		g.creator = newCreator(nil)
		return setCapabilities(0, 0)
	}
	g.creator = newCreator(creatable)
	return setCapabilities(0, guardCapabilities)
}

// call is one handed-over system call.
type call struct {
	id   uint64
	pid  int
	args [6]uint64
}

func (c *call) int(i int) int { return int(int32(c.args[i])) }

// serve decides and performs one call.
func (g *guard) serve(n *notification) {
	c := &call{id: n.ID, pid: int(n.PID), args: n.Args}
	nr := uintptr(n.Nr)
	g.tasks.masks.returned(c.pid)
	switch nr {
	case unix.SYS_UMASK:
		g.tasks.changeMask(c.pid, c.int(0))
		g.listener.proceed(c.id)
		return
	case unix.SYS_CONNECT:
		g.serveConnect(c)
		return
	case unix.SYS_BIND:
		g.serveBind(c)
		return
	case unix.SYS_SOCKET:
		g.refuseSocket(c)
		return
	case unix.SYS_SOCKETPAIR:
		g.serveSocketPair(c)
		return
	case unix.SYS_SENDTO:
		g.serveSendTo(c)
		return
	}
	if g.elsewhere(c.pid) {
		g.listener.proceed(c.id)
		return
	}
	var e unix.Errno
	switch nr {
	case unix.SYS_OPENAT:
		g.open(c, c.int(0), c.args[1], c.int(2), uint32(c.args[3]))
		return
	case unix.SYS_OPENAT2:
		// The flags are in memory that can change; programs fall back to openat(2).
		e = unix.ENOSYS
	case unix.SYS_MKDIRAT:
		e = g.makeDir(c, c.int(0), c.args[1], uint32(c.args[2]))
	case unix.SYS_MKNODAT:
		e = g.makeNode(c, c.int(0), c.args[1], uint32(c.args[2]), int(uint32(c.args[3])))
	case unix.SYS_SYMLINKAT:
		e = g.symlink(c, c.args[0], c.int(1), c.args[2])
	case unix.SYS_LINKAT:
		e = g.link(c, c.int(0), c.args[1], c.int(2), c.args[3], c.int(4))
	case unix.SYS_RENAMEAT2:
		e = g.rename(c, c.int(0), c.args[1], c.int(2), c.args[3], uint(c.args[4]))
	case legacyCalls.renameat:
		e = g.rename(c, c.int(0), c.args[1], c.int(2), c.args[3], 0)
	default:
		if g.serveLegacy(c, nr) || g.serveChange(c, nr) {
			return
		}
		e = unix.ENOSYS
	}
	g.listener.answer(c.id, 0, e)
}

// elsewhere reports whether the caller left the sandbox's user namespace for one
// of its own, which only allowNestedUserNamespaces permits. There the settings
// give the denies up, and only the kernel can perform the call.
func (g *guard) elsewhere(pid int) bool {
	if g.userNamespace == "" {
		return false
	}
	name := fmt.Sprintf("/proc/%d/ns/user", pid)
	theirs, err := os.Readlink(name)
	if errors.Is(err, unix.EACCES) { // root's commands keep a capability
		err = g.privileged(func() (e error) {
			theirs, e = os.Readlink(name)
			return e
		})
	}
	return err != nil || theirs != g.userNamespace
}

// serveLegacy handles the calls without a directory argument. It reports
// whether the call was one of them; it is then answered.
func (g *guard) serveLegacy(c *call, nr uintptr) bool {
	if !legacyCalls.present {
		return false
	}
	const here = unix.AT_FDCWD
	var e unix.Errno
	switch nr {
	case legacyCalls.open:
		g.open(c, here, c.args[0], c.int(1), uint32(c.args[2]))
		return true
	case legacyCalls.creat:
		g.open(c, here, c.args[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(c.args[1]))
		return true
	case legacyCalls.mkdir:
		e = g.makeDir(c, here, c.args[0], uint32(c.args[1]))
	case legacyCalls.mknod:
		e = g.makeNode(c, here, c.args[0], uint32(c.args[1]), int(uint32(c.args[2])))
	case legacyCalls.symlink:
		e = g.symlink(c, c.args[0], here, c.args[1])
	case legacyCalls.link:
		e = g.link(c, here, c.args[0], here, c.args[1], 0)
	case legacyCalls.rename:
		e = g.rename(c, here, c.args[0], here, c.args[1], 0)
	default:
		return false
	}
	g.listener.answer(c.id, 0, e)
	return true
}

// guarded is a protected name that a call is about.
type guarded struct {
	GuardedName
	// there marks a name in a directory of Standing that has an object all the same:
	// a link that was there before, a hidden directory, or what the host made
	// meanwhile. leads marks one that is protected only for what it leads to.
	there, leads bool
	// within marks a location beneath the protected one.
	within bool
}

// guarded returns the protected name at the location, if it is one.
func (g *guard) guarded(at location) (guarded, bool) {
	for _, n := range g.names[at.id] {
		if n.Name == at.name || n.Fold && protected.Same(n.Name, at.name) {
			return guarded{GuardedName: n}, true
		}
	}
	if n, ok := g.keptOut(at); ok {
		return n, true
	}
	return g.keptAt(at)
}

// held reports whether a protected object still has its mount, which answers for
// it better than the guard could.
func held(n guarded, at location) bool {
	if !n.Exists && !n.there {
		return false
	}
	var dir, name unix.Statx_t
	return unix.Statx(at.dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &dir) == nil &&
		unix.Statx(at.dir, at.name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &name) == nil && dir.Mnt_id != name.Mnt_id
}
