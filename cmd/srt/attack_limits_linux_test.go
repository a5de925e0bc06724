package main

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// raiseLimit changes the hard limit of open files of a process; 0 is the caller.
func raiseLimit(pid int, by int64) error {
	var r unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &r); err != nil {
		return err
	}
	r.Max = uint64(int64(r.Max) + by)
	r.Cur = min(r.Cur, r.Max)
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &r, nil)
}

// lowerThread names process 1 by its other threads: limits belong to all of them.
func lowerThread() error {
	tasks, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	last := errors.New("process 1 has no threads")
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil || id == 1 {
			continue
		}
		if last = raiseLimit(id, -1); last == nil {
			return nil
		}
	}
	return last
}

// lowerByAddress has the new limit at an address whose low 32 bits are zero.
func lowerByAddress() error {
	const address = 1 << 32
	var r unix.Rlimit
	if err := unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &r); err != nil {
		return err
	}
	memory, err := unix.MemfdCreate("limit", 0)
	if err != nil {
		return err
	}
	text := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, r.Cur-1), r.Max-1)
	if _, err := unix.Write(memory, text); err != nil {
		return err
	}
	_, _, e := unix.Syscall6(unix.SYS_MMAP, address, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE, uintptr(memory), 0)
	if e == 0 {
		_, _, e = unix.Syscall6(unix.SYS_PRLIMIT64, 1, unix.RLIMIT_NOFILE, address, 0, 0, 0)
	}
	if e != 0 {
		return e
	}
	return nil
}
