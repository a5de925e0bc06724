package violation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// held is how many events a store keeps.
	held = 100
	// subscriberBuffer is how far a reader may fall behind.
	subscriberBuffer = 256
	maxText          = 4096
)

// Store keeps the newest events. Its methods are safe for concurrent use.
type Store struct {
	mu          sync.Mutex
	events      []Event
	total       uint64
	ignore      map[string][]string
	subscribers map[chan Event]struct{}
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{subscribers: map[chan Event]struct{}{}} }

// SetIgnore replaces the rules for events that are not recorded. A key is "*"
// or a part of a command's text, its values are parts of an event's line.
func (s *Store) SetIgnore(rules map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ignore = make(map[string][]string, len(rules))
	for k, v := range rules {
		s.ignore[k] = slices.Clone(v)
	}
}

func (s *Store) ignored(e Event) bool {
	for key, parts := range s.ignore {
		if key != "*" && (e.Command == "" || !strings.Contains(e.Command, key)) {
			continue
		}
		for _, part := range parts {
			if strings.Contains(e.Line, part) {
				return true
			}
		}
	}
	return false
}

// Add records an event unless a rule says to ignore it. Texts are made safe.
func (s *Store) Add(e Event) {
	for _, text := range []*string{&e.Line, &e.Target, &e.Spelling, &e.Rule, &e.Setting, &e.Command, &e.Process} {
		*text = Truncate(Sanitize(*text), maxText)
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ignored(e) {
		return
	}
	s.total++
	e.Seq = s.total
	if len(s.events) >= held {
		s.evict()
	}
	s.events = append(s.events, e)
	for ch := range s.subscribers {
		offer(ch, e)
	}
}

// evict drops the oldest event of the command that has the most, so that a
// noisy command cannot push out what another did.
func (s *Store) evict() {
	counts := map[string]int{}
	worst := ""
	for _, e := range s.events {
		counts[e.CommandID]++
		if counts[e.CommandID] > counts[worst] {
			worst = e.CommandID
		}
	}
	i := slices.IndexFunc(s.events, func(e Event) bool { return e.CommandID == worst })
	s.events = slices.Delete(s.events, max(i, 0), max(i, 0)+1)
}

// offer delivers an event; a full reader loses its oldest one.
func offer(ch chan Event, e Event) {
	for {
		select {
		case ch <- e:
			return
		default:
		}
		select {
		case <-ch:
		default:
		}
	}
}

// List returns the newest limit events, oldest first; all for a negative limit.
func (s *Store) List(limit int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit < 0 || limit > len(s.events) {
		limit = len(s.events)
	}
	return slices.Clone(s.events[len(s.events)-limit:])
}

// Count returns how many events are held.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// Total returns how many events were ever recorded.
func (s *Store) Total() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// ForCommand returns the held events of one command, oldest first.
func (s *Store) ForCommand(id string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []Event
	for _, e := range s.events {
		if id != "" && e.CommandID == id {
			own = append(own, e)
		}
	}
	return own
}

// Clear forgets the held events and keeps the total.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = nil
}

// Subscribe delivers every event from now on. The channel is closed when ctx ends.
func (s *Store) Subscribe(ctx context.Context) <-chan Event {
	ch := make(chan Event, subscriberBuffer)
	s.mu.Lock()
	s.subscribers[ch] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, ch)
		close(ch)
	})
	return ch
}
