package inside

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FilterOptions are the choices of the policy that change the seccomp filter.
type FilterOptions struct {
	// UnixSockets lets the command create and use Unix sockets of every kind.
	UnixSockets bool
	// NestedNamespaces lets the command create namespaces and mounts of its own.
	NestedNamespaces bool
	// Guard hands the calls that create or change names to srt-init.
	Guard bool
	// Trace hands every open over, so that those of hidden places are noticed.
	Trace bool
	// Unguarded hands nothing over. Then there are no Unix sockets but pairs, unless
	// UnixSockets is set, because nobody judges which are meant.
	Unguarded bool
	// Direct and HostPorts hand connections over, so that they can be made without
	// a proxy: to every address, and to ports of the host's loopback.
	Direct, HostPorts bool
	// Landlock replaces what namespaces confine; nil where there are some. It is
	// not part of the launch spec.
	Landlock *landlockFilter
}

// served reports whether srt-init serves any call.
func (o FilterOptions) served() bool {
	return !o.Unguarded && (o.Guard || !o.UnixSockets || o.Direct || o.HostPorts || o.Landlock != nil)
}

// bpfJumpLimit is the reach of a conditional jump, whose offsets are bytes.
const bpfJumpLimit = 255

// Offsets into struct seccomp_data, see seccomp(2). The low halves are those of
// little-endian machines; amd64 and arm64 both are.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// condition is a test of 32 bits of one system call argument, the low ones
// unless upper is set. Flag arguments are 32 bits wide in the kernel, so what a caller puts above them
// must not change the outcome.
type condition struct {
	arg   int
	mask  uint32 // 0 means all bits
	value uint32
	// anyBit makes the condition hold when any bit of mask is set.
	anyBit bool
	upper  bool
}

func equals(arg int, value uint32) condition { return condition{arg: arg, value: value} }
func hasAny(arg int, mask uint32) condition  { return condition{arg: arg, mask: mask, anyBit: true} }
func isNull(arg int) []condition {
	return []condition{equals(arg, 0), {arg: arg, upper: true}}
}
func maskedEquals(arg int, mask, value uint32) condition {
	return condition{arg: arg, mask: mask, value: value}
}

// rule gives the outcome of one system call when all its conditions hold. Rules
// of one call are tried in order.
type rule struct {
	call   uintptr
	when   []condition
	action uint32
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA }

// assemble compiles the rules to a BPF program. Foreign system call tables kill
// the process: their numbers mean other calls. What no rule matches is allowed, up to
// the newest call that somebody has thought about here.
func assemble(rules []rule) ([]unix.SockFilter, error) {
	prog := []unix.SockFilter{
		loadWord(offsetArch),
		jumpEqual(auditArch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		loadWord(offsetNumber),
	}
	prog = append(prog, foreignNumbers()...)
	for _, group := range groupByCall(rules) {
		block := compileCall(group)
		if len(block) > bpfJumpLimit {
			return nil, fmt.Errorf("compiling the seccomp filter: call %d needs %d instructions, more than a jump can pass", group[0].call, len(block))
		}
		prog = append(prog, jumpEqual(uint32(group[0].call), 0, uint8(len(block))))
		prog = append(prog, block...)
	}
	prog = append(prog, unknownNumbers()...)
	if len(prog) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("compiling the seccomp filter: %d instructions, more than the kernel takes", len(prog))
	}
	return prog, nil
}

// newestCall is rseq_slice_yield(2), Linux 7.0. New calls have the same number on every
// architecture, see Documentation/process/adding-syscalls.rst of the kernel.
const newestCall = 471

// unknownNumbers answers later calls as a kernel without them does, for which every
// program is prepared. The number -1 is left alone: a tracer uses it to skip a call.
func unknownNumbers() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: newestCall + 1, Jf: 2},
		jumpEqual(0xffffffff, 1, 0),
		ret(errno(unix.ENOSYS)),
		ret(unix.SECCOMP_RET_ALLOW),
	}
}

// groupByCall keeps the order of first appearance.
func groupByCall(rules []rule) [][]rule {
	index := map[uintptr]int{}
	var groups [][]rule
	for _, r := range rules {
		i, ok := index[r.call]
		if !ok {
			i = len(groups)
			index[r.call] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// compileCall emits the rules of one call and a final allow, so that a block
// never falls through with the accumulator changed.
func compileCall(rules []rule) []unix.SockFilter {
	var block []unix.SockFilter
	for _, r := range rules {
		block = append(block, compileRule(r)...)
	}
	return append(block, ret(unix.SECCOMP_RET_ALLOW))
}

func compileRule(r rule) []unix.SockFilter {
	// Built backwards: each failed condition jumps over what follows it.
	code := []unix.SockFilter{ret(r.action)}
	for i := len(r.when) - 1; i >= 0; i-- {
		code = append(compileCondition(r.when[i], uint8(len(code))), code...)
	}
	return code
}

func compileCondition(c condition, skip uint8) []unix.SockFilter {
	word := uint32(offsetArgs + 8*c.arg)
	if c.upper {
		word += 4
	}
	code := []unix.SockFilter{loadWord(word)}
	var test unix.SockFilter
	if c.anyBit {
		test = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: c.mask, Jf: skip}
	} else {
		if c.mask != 0 {
			code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask})
		}
		test = jumpEqual(c.value, 0, skip)
	}
	return append(code, test)
}

func loadWord(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jumpEqual(value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// listenFlags are those of a filter that hands calls over.
const listenFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// knowsFilterFlags asks the kernel, which looks at the flags of a filter before it
// looks for the filter.
func knowsFilterFlags(flags uintptr) bool {
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	return e == unix.EFAULT
}

// installFilter puts the program on the calling thread and everything it
// starts from now on. With listen it returns the notification descriptor,
// otherwise -1.
func installFilter(prog []unix.SockFilter, listen bool) (int, error) {
	flags := uintptr(0)
	if listen {
		flags = listenFlags
	}
	fd, err := seccompFilter(prog, flags)
	if err == unix.EINVAL && listen {
		// Linux before 5.19 cannot keep a caller's wait free of signals.
		fd, err = seccompFilter(prog, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	if err != nil {
		return -1, fmt.Errorf("installing the seccomp filter: %w", err)
	}
	if !listen {
		return -1, nil
	}
	return fd, nil
}

func seccompFilter(prog []unix.SockFilter, flags uintptr) (int, error) {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	r, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}
