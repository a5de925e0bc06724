package inside

import (
	"fmt"
	"net/netip"
	"path"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/internal/glob"
)

// The guard connects and binds Unix sockets for the command, on a copy of its
// descriptor and a copy of the address: neither can be exchanged between the
// decision and the call. All connections come here, because whether one means a
// Unix socket stands in memory that can change.

// sockets knows which Unix sockets the command may connect to: its own, and
// those that the settings name.
type sockets struct {
	rules []socketRule
	all   bool // the settings admit every one
	// own holds a descriptor of each socket file that was bound here, which keeps
	// its number from being used again.
	own  map[object]int
	most int
}

type socketRule struct {
	path    string
	pattern *glob.Pattern // nil admits everything at and beneath path
}

func newSockets(rules []SocketRule, all bool) *sockets {
	s := &sockets{all: all, own: map[object]int{}, most: share(maxOwn)}
	for _, r := range rules {
		rule := socketRule{path: r.Path}
		if r.Pattern != "" {
			rule.pattern = glob.Compile(r.Pattern)
		}
		s.rules = append(s.rules, rule)
	}
	return s
}

// named reports whether the settings admit the socket at a real path.
func (s *sockets) named(name string) bool {
	for _, r := range s.rules {
		if r.pattern == nil && (name == r.path || Beneath(r.path, name)) {
			return true
		}
		if r.pattern != nil && Beneath(r.path, name) && r.pattern.Match(relativeTo(r.path, name)) {
			return true
		}
	}
	return false
}

func relativeTo(dir, name string) string {
	if dir == "/" {
		return name[1:]
	}
	return name[len(dir)+1:]
}

// maxOwn bounds the descriptors held for sockets of the command. Files beyond that
// can be made, but not connected to.
const maxOwn = 4096

// add records a socket file that was bound here.
func (s *sockets) add(fd int) error {
	if len(s.own) >= s.most {
		s.forgetRemoved()
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	key := object{st.Dev, st.Ino}
	if _, known := s.own[key]; known || len(s.own) >= s.most {
		unix.Close(fd)
		return nil
	}
	s.own[key] = fd
	return nil
}

func (s *sockets) forgetRemoved() {
	for key, fd := range s.own {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Nlink == 0 {
			unix.Close(fd)
			delete(s.own, key)
		}
	}
}

func (s *sockets) isOwn(st *unix.Stat_t) bool {
	_, ok := s.own[object{st.Dev, st.Ino}]
	return ok
}

// serveConnect serves connect(2).
func (g *guard) serveConnect(c *call) {
	if g.rules != nil || g.plain {
		g.connectForward(c)
		return
	}
	raw, e := g.socketAddress(c)
	if e != 0 {
		g.listener.answer(c.id, 0, e)
		return
	}
	fd, err := g.callersSocket(c)
	if err != nil {
		g.listener.answer(c.id, 0, errnoOf(err))
		return
	}
	if name, ok := socketPath(raw); ok && socketOption(fd, unix.SO_DOMAIN) == unix.AF_UNIX {
		if g.sockets.all && g.elsewhere(c.pid) {
			// Only the kernel knows what the path means there. Whatever else it may
			// find in the caller's memory has to pass a listener of srt's, too.
			unix.Close(fd)
			g.listener.proceed(c.id)
			return
		}
		target, e := -1, unix.EINVAL
		if len(raw) <= unix.SizeofSockaddrUnix {
			target, e = g.socketTarget(c, name)
		}
		if e != 0 {
			unix.Close(fd)
			g.listener.answer(c.id, 0, e)
			return
		}
		// The kernel follows this link to the very object that was judged.
		raw = socketAddressOf(descriptorPath(target))
		g.connectSocket(c, fd, raw, target)
		return
	}
	to, ok := destination(raw)
	if !ok || !g.direct.concerns(to) || !isTCP(socketOption(fd, unix.SO_PROTOCOL)) {
		g.connectSocket(c, fd, raw, -1)
		return
	}
	g.connectDirect(c, fd, raw, to)
}

// connectDirect asks before it connects, aside from the guard's own thread.
func (g *guard) connectDirect(c *call, fd int, raw []byte, to netip.AddrPort) {
	fail := func(e unix.Errno) {
		unix.Close(fd)
		g.listener.answer(c.id, 0, e)
	}
	g.hold(func() {
		e := g.direct.admit(connectCall{c.pid, to}, func() bool { return g.listener.valid(c.id) })
		if e != 0 {
			fail(e)
			return
		}
		g.connectSocket(c, fd, raw, -1)
	}, func() { fail(unix.EAGAIN) })
}

// hold performs what may wait aside from the guard's own thread, unless too much
// waits already.
func (g *guard) hold(act, refuse func()) {
	select {
	case g.held <- struct{}{}:
		go func() {
			defer func() { <-g.held }()
			act()
		}()
	default:
		refuse()
	}
}

// socketTarget opens the socket file that a path means for the caller, and
// decides about it.
func (g *guard) socketTarget(c *call, spelled string) (int, unix.Errno) {
	if g.elsewhere(c.pid) {
		return -1, unix.EPERM // another mount namespace: its paths say nothing here
	}
	fd, e := g.objectAt(c, unix.AT_FDCWD, spelled, 0)
	if e != 0 {
		return -1, e
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		unix.Close(fd)
		return -1, unix.ECONNREFUSED
	}
	name, e := objectName(fd)
	if e == 0 && (g.sockets.all || g.sockets.isOwn(&st) || name != "" && g.sockets.named(name)) {
		return fd, 0
	}
	unix.Close(fd)
	if name == "" {
		name = spelled
	}
	g.reportPath(c, "connect", name, "built-in: Unix sockets", fmt.Sprintf("network.allowUnixSockets: [%q]", name))
	return -1, unix.EPERM
}

// connectSocket makes the connection and answers. One that may wait gets a
// thread of its own. fd and target are closed.
func (g *guard) connectSocket(c *call, fd int, raw []byte, target int) {
	closeAll := func() {
		unix.Close(fd)
		if target >= 0 {
			unix.Close(target)
		}
	}
	finish := func(e unix.Errno) {
		if target < 0 {
			g.missed(fd, raw, e)
		}
		closeAll()
		g.listener.answer(c.id, 0, e)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && (flags&unix.O_NONBLOCK != 0 || socketOption(fd, unix.SO_TYPE) == unix.SOCK_DGRAM) {
		waited := unix.EINPROGRESS
		if target >= 0 {
			waited = unix.EAGAIN // unix(7)
		}
		finish(atOnce(func() unix.Errno { return rawConnect(fd, raw) }, waited))
		return
	}
	g.hold(func() {
		if !g.connectTurn(c) {
			closeAll()
			return
		}
		defer func() { <-g.connects }()
		runtime.LockOSThread() // the thread ends with the goroutine
		if blockSignals() != nil || setCapabilities(0, 0) != nil {
			raw = nil // which no socket takes
		}
		finish(g.listener.waitFor(c, func() unix.Errno { return rawConnect(fd, raw) }))
	}, func() { finish(unix.EAGAIN) })
}

// turnPause is how often a call that waits for its turn looks whether its caller
// still does.
const turnPause = 100 * time.Millisecond

// connectTurn waits for a slot among the connections: programs make hundreds at
// once, and each has a thread. It is false when the caller gave up.
func (g *guard) connectTurn(c *call) bool {
	for {
		select {
		case g.connects <- struct{}{}:
			if g.listener.valid(c.id) {
				return true
			}
			<-g.connects
			return false
		case <-time.After(turnPause):
			if !g.listener.valid(c.id) {
				return false
			}
		}
	}
}

func rawConnect(fd int, raw []byte) unix.Errno {
	var address unsafe.Pointer
	if len(raw) > 0 {
		address = unsafe.Pointer(&raw[0])
	}
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(address), uintptr(len(raw)))
	return e
}

// refuseSocket serves socket(2) for Unix sockets that carry datagrams.
func (g *guard) refuseSocket(c *call) {
	g.reportPath(c, "socket", "unix-datagram", "built-in: Unix sockets", "set network.allowAllUnixSockets to true")
	g.listener.answer(c.id, 0, unix.EPERM)
}

// serveBind serves bind(2).
func (g *guard) serveBind(c *call) {
	raw, e := g.socketAddress(c)
	if e == 0 {
		fd, err := g.callersSocket(c)
		if e = result(err); e == 0 {
			e = g.bind(c, fd, raw)
			unix.Close(fd)
		}
	}
	g.listener.answer(c.id, 0, e)
}

func (g *guard) bind(c *call, fd int, raw []byte) unix.Errno {
	name, ok := socketPath(raw)
	if !ok || socketOption(fd, unix.SO_DOMAIN) != unix.AF_UNIX {
		return rawBind(fd, raw)
	}
	if g.elsewhere(c.pid) {
		return unix.EPERM
	}
	base, e := g.base(c, unix.AT_FDCWD, name)
	if e != 0 {
		return e
	}
	defer g.release(base)
	at, e := g.locateFrom(c, base, name)
	if e != 0 {
		return e
	}
	defer at.close()
	if n, ok := g.guarded(at); ok && !exists(at) {
		return g.refuse(c, "bind", n, unix.EROFS)
	}
	if onProc(at.dir) {
		return unix.EACCES
	}
	// getsockname(2) shows the path as it was given, so it must be given so. On the
	// way through /proc it would mean something else for srt-init.
	dir := base
	if g.throughProc(base, name) {
		dir, raw = at.dir, socketAddressOf(at.last())
	}
	if err := unix.Fchdir(dir); err != nil {
		return errnoOf(err)
	}
	e = g.withUmask(c, func() error { return asError(rawBind(fd, raw)) })
	_ = unix.Chdir("/")
	if e == 0 {
		return g.keepBound(c, fd)
	}
	return g.noted(c, "bind", at, e)
}

// throughProc reports whether the meaning of a path depends on who asks.
func (g *guard) throughProc(base int, name string) bool {
	parent, _, _ := splitPath(name)
	fd, e := g.walkAtOnce(base, parent)
	if e == 0 {
		unix.Close(fd)
	}
	return e == errProcOnTheWay
}

// asError keeps a zero error number from becoming an error.
func asError(e unix.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func rawBind(fd int, raw []byte) unix.Errno {
	var address unsafe.Pointer
	if len(raw) > 0 {
		address = unsafe.Pointer(&raw[0])
	}
	_, _, e := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(address), uintptr(len(raw)))
	return e
}

// keepBound records the file of a socket that was just bound. The kernel names
// it: the path may mean something else by now. A file that ended up at a
// protected name goes away again.
func (g *guard) keepBound(c *call, fd int) unix.Errno {
	file := -1
	err := g.privileged(func() error {
		n, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), siocUnixFile, 0)
		file = int(n)
		return asError(e)
	})
	if err != nil {
		return errnoOf(err)
	}
	if e := g.checkBound(c, file); e != 0 {
		unix.Close(file)
		return e
	}
	return result(g.sockets.add(file))
}

// siocUnixFile is SIOCUNIXFILE of <linux/un.h>, Linux 4.12: an O_PATH descriptor
// of the file that a socket is bound to.
const siocUnixFile = 0x89e0

func (g *guard) checkBound(c *call, file int) unix.Errno {
	name, e := objectName(file)
	if e != 0 || name == "" {
		return e
	}
	dir, err := openObject(path.Dir(name))
	if err != nil {
		return 0 // moved already
	}
	at := location{dir: dir, name: path.Base(name)}
	defer at.close()
	if at.id, _, e = g.identify(dir); e != 0 {
		return e
	}
	n, ok := g.guarded(at)
	if !ok || n.Exists && !n.within {
		return 0
	}
	_ = unix.Unlinkat(at.dir, at.name, 0)
	return g.refuse(c, "bind", n, unix.EROFS)
}
