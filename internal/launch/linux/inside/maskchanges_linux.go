package inside

import (
	"slices"

	"golang.org/x/sys/unix"
)

// maxMaskChanges bounds the changes that are followed at a time.
const maxMaskChanges = 16

// maskChanges are the calls of umask(2) that were let through and may not have
// happened yet: the kernel performs them at some moment after the answer. Until
// all have happened, no file mode mask is remembered.
type maskChanges struct {
	pending []maskChange
	// lost says that there were too many to follow them; from then on every mask
	// is read when it is needed.
	lost bool
}

type maskChange struct{ tid, mask int }

func (m *maskChanges) settled() bool { return len(m.pending) == 0 && !m.lost }

func (m *maskChanges) add(tid, mask int) {
	m.returned(tid)
	if len(m.pending) >= maxMaskChanges {
		m.lost = true
		return
	}
	m.pending = append(m.pending, maskChange{tid, mask & 0o777})
}

// returned notes that a thread made another call: its change has happened.
func (m *maskChanges) returned(tid int) {
	if len(m.pending) > 0 {
		m.pending = slices.DeleteFunc(m.pending, func(c maskChange) bool { return c.tid == tid })
	}
}

// settle looks which changes have happened. The threads that are gone make none.
// What a single change sets shows whether it has happened, or would change
// nothing; with several, another one may have set that.
func (m *maskChanges) settle(read func(tid int) (int, error)) {
	alone := len(m.pending) == 1
	m.pending = slices.DeleteFunc(m.pending, func(c maskChange) bool {
		mask, err := read(c.tid)
		return err == unix.ESRCH || err == unix.ENOENT || err == nil && alone && mask == c.mask
	})
}
