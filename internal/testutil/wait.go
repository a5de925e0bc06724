package testutil

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It is long because test
// machines are busy; nothing waits longer than it has to.
const Patience = 60 * time.Second

// Eventually waits until something that happens elsewhere has happened. What is
// looked at changes meanwhile, so holds decides from one look; reading it a second
// time afterwards may show something else.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Patience, holds) {
		t.Fatalf("waited for %s", what)
	}
}

// Within reports whether something holds before the time is over.
func Within(limit time.Duration, holds func() bool) bool {
	end := time.Now().Add(limit)
	for pause := time.Millisecond; !holds(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
