package inside

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// isControllingTerminal recognises /dev/tty, which means another terminal for
// each session.
func isControllingTerminal(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(st.Rdev) == 5 && unix.Minor(st.Rdev) == 0
}

// openCallersTerminal opens the caller's controlling terminal: srt-init's own
// for the session both were started in, otherwise the pseudo-terminal of the
// sandbox that the caller's session belongs to.
func openCallersTerminal(pid, flags int) (int, unix.Errno) {
	theirs, err1 := unix.Getsid(pid)
	ours, err2 := unix.Getsid(0)
	if err1 == nil && err2 == nil && theirs == ours {
		fd, err := unix.Open("/dev/tty", flags, 0)
		return fd, result(err)
	}
	minor, ok := sessionTerminal(pid)
	if !ok {
		return -1, unix.ENXIO
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", minor), flags, 0)
	return fd, result(err)
}

// sessionTerminal reads field 7 of /proc/PID/stat, see proc_pid_stat(5), and
// returns the number of the pseudo-terminal.
func sessionTerminal(pid int) (uint32, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return terminalOf(string(stat))
}

// terminalOf finds the field in a text that begins with a name of the caller's
// choice.
func terminalOf(stat string) (uint32, bool) {
	_, after, ok := strings.Cut(stat, ") ")
	for strings.Contains(after, ") ") {
		_, after, _ = strings.Cut(after, ") ")
	}
	fields := strings.Fields(after)
	if !ok || len(fields) < 5 {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[4], 10, 32)
	if err != nil || n == 0 {
		return 0, false
	}
	dev := uint32(int32(n))
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	return minor + (major-136)<<8, major >= 136 && major <= 143
}
