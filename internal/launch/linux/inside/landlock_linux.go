package inside

import (
	"errors"
	"fmt"
	"os"
	"path"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LandlockABI returns the version of the kernel's Landlock interface, see
// landlock(7); 0 when the kernel has none or a container's filter hides it.
func LandlockABI() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// Versions of the interface, by what they brought.
const (
	abiRefer    = 2 // Linux 5.19
	abiTruncate = 3 // Linux 6.2
	abiNetwork  = 4 // Linux 6.7
	abiDevices  = 5 // Linux 6.10
	abiScopes   = 6 // Linux 6.12: signals and abstract sockets
)

// Rights of Landlock on a hierarchy of files.
const (
	rightsRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	rightsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// handledRights is everything that a version knows: what no rule grants is denied.
func handledRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if abi >= abiRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiDevices {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// ruleset is a Landlock ruleset under construction.
type ruleset struct {
	fd      int
	handled uint64
}

// newRuleset handles everything that the kernel can restrict: writes are never
// granted, because srt-init performs them itself, and neither are connections.
func newRuleset(abi int, files, listen bool) (*ruleset, error) {
	var attr unix.LandlockRulesetAttr
	if files {
		attr.Handled_access_fs = handledRights(abi)
	}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if abi >= abiNetwork {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		if !listen {
			attr.Handled_access_net |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
		}
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	if abi >= abiScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size += unsafe.Sizeof(attr.Scoped)
	}
	if !files && size == unsafe.Sizeof(attr.Handled_access_fs) {
		return nil, errors.New("creating the Landlock ruleset: this kernel restricts nothing but files, and filesystem.disabled leaves nothing to restrict")
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, fmt.Errorf("creating the Landlock ruleset: %w", e)
	}
	return &ruleset{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

// pathBeneath mirrors the packed struct landlock_path_beneath_attr.
type pathBeneath struct {
	rights [8]byte
	parent int32
}

// grant gives rights on an object and everything beneath it. Objects that are
// gone, or that nobody may look at, need no rule.
func (r *ruleset) grant(name string, rights uint64) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil // a link grants nothing: what it leads to has a rule of its own
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsFile
	}
	if rights &= r.handled; rights == 0 {
		return nil
	}
	rule := pathBeneath{rights: *(*[8]byte)(unsafe.Pointer(&rights)), parent: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("adding a Landlock rule for %s: %w", name, e)
	}
	return nil
}

// grantDevices opens the devices that every program expects.
func (r *ruleset) grantDevices() error {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"} {
		if err := r.grant("/dev/"+name, rightsDevice); err != nil {
			return err
		}
	}
	return nil
}

// maxLandlockRules bounds what one directory full of names can cost.
const maxLandlockRules = 200_000

// readGrants adds the rules that let the kernel itself judge reads. Landlock
// only knows whole hierarchies, so a directory that holds something unreadable
// gets a rule for each of its other children; the directory itself, and what
// appears in it later, is served by the guard. To run a program takes the right to
// read it, too, and the guard serves no execve(2): what appears there does not run.
func (r *ruleset) readGrants(p *pathRules) error {
	budget := maxLandlockRules
	return r.grantTree(p, "/", &budget)
}

func (r *ruleset) grantTree(p *pathRules, dir string, budget *int) error {
	if *budget--; *budget < 0 {
		return errors.New("adding Landlock rules: too many names beside those that denyRead hides")
	}
	if !p.gap(dir) {
		if !p.at(dir).Read {
			return nil
		}
		return r.grant(dir, rightsRead)
	}
	if !p.at(dir).Read {
		return r.grantKnown(p, dir, budget)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r.grantKnown(p, dir, budget)
	}
	for _, e := range entries {
		if err := r.grantTree(p, path.Join(dir, e.Name()), budget); err != nil {
			return err
		}
	}
	return nil
}

// grantKnown goes on with what the policy names below a directory that is
// hidden or cannot be listed.
func (r *ruleset) grantKnown(p *pathRules, dir string, budget *int) error {
	for _, name := range p.below[dir] {
		if err := r.grantTree(p, name, budget); err != nil {
			return err
		}
	}
	return nil
}

// restrict puts the ruleset on the calling thread and all that it starts.
func (r *ruleset) restrict() error {
	_, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0)
	unix.Close(r.fd)
	if e != 0 {
		return fmt.Errorf("applying the Landlock ruleset: %w", e)
	}
	return nil
}
