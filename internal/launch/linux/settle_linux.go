package linux

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settleTime bounds the wait for a process group to stop.
const settleTime = 300 * time.Millisecond

// awaitStop waits until every process of a job that a signal of the terminal stops
// has stopped. A process that is being forked when the signal comes gets it at its
// birth, and the kernel does not take it back for a SIGCONT that is sent in between
// and means nothing to the parent: it would stay stopped for good. srt-init leads
// the job and is not stopped.
func awaitStop(job int, s unix.Signal) {
	for end := time.Now().Add(settleTime); isStopping(job, s) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// isStopping reports whether a process of a job runs that the signal stops.
func isStopping(job int, s unix.Signal) bool {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return false
	}
	for _, name := range names {
		pid, _, group, ok := readStat(name)
		if ok && group == job && pid != job && stops(filepath.Dir(name), s) {
			return true
		}
	}
	return false
}

// stops reads from /proc/PID/status whether a process runs and does not block,
// ignore or catch a signal, see proc_pid_status(5).
func stops(dir string, s unix.Signal) bool {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	state := statusField(string(status), "State")
	if state == "" || strings.Contains("TtZX", state[:1]) {
		return false
	}
	for _, name := range []string{"SigBlk", "SigIgn", "SigCgt"} {
		set, err := strconv.ParseUint(statusField(string(status), name), 16, 64)
		if err != nil || set&(1<<(s-1)) != 0 {
			return false
		}
	}
	return true
}
