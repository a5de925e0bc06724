package violation

import (
	"cmp"
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
	// maxText bounds each text of an event, in UTF-16 code units.
	maxText = 4096
)

// Store keeps the newest events. Its methods are safe for concurrent use.
type Store struct {
	mu          sync.Mutex
	events      []Event
	total       uint64
	dropped     uint64
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

// ignored applies the rules to a line and to the command's text as it was
// given: what Sanitize takes out of it may stand in a rule.
func (s *Store) ignored(line, command string) bool {
	for key, parts := range s.ignore {
		if key != "*" && (command == "" || !strings.Contains(command, key)) {
			continue
		}
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) }) {
			return true
		}
	}
	return false
}

// Add records an event unless a rule says to ignore it. Texts are made safe and
// cut to a bounded length.
func (s *Store) Add(e Event) {
	command := e.Command
	for _, text := range []*string{&e.Line, &e.Target, &e.Spelling, &e.Rule, &e.Setting, &e.Command, &e.Process} {
		*text = Truncate(Sanitize(*text), maxText)
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ignored(e.Line, command) {
		return
	}
	s.total++
	e.Seq = s.total
	if len(s.events) >= held {
		s.evict()
	}
	s.events = append(s.events, e)
	for ch := range s.subscribers {
		s.offer(ch, e)
	}
}

// evict drops an event of the command that has the most, so that a noisy command
// cannot push out what another did. It is the oldest of the operation that this
// command has the most of: it cannot push out what it did before by doing something
// else very often.
func (s *Store) evict() {
	name := func(e Event) string { return cmp.Or(e.CommandID, e.Command) }
	command := most(s.events, func(Event) bool { return true }, name)
	ofCommand := func(e Event) bool { return name(e) == command }
	op := most(s.events, ofCommand, func(e Event) string { return e.Op })
	i := slices.IndexFunc(s.events, func(e Event) bool { return ofCommand(e) && e.Op == op })
	s.events = slices.Delete(s.events, i, i+1)
}

// most returns the key that most of the events have which are of interest.
func most(events []Event, interest func(Event) bool, key func(Event) string) (found string) {
	counts := map[string]int{}
	for _, e := range events {
		if !interest(e) {
			continue
		}
		k := key(e)
		if counts[k]++; counts[k] > counts[found] {
			found = k
		}
	}
	return found
}

// offer delivers an event; a reader that is too far behind loses its oldest one.
func (s *Store) offer(ch chan Event, e Event) {
	for {
		select {
		case ch <- e:
			return
		default:
		}
		select {
		case <-ch:
			s.dropped++
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

// Dropped returns how many deliveries slow subscribers have lost.
func (s *Store) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
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

// Subscribe delivers every event from now on. A reader that falls behind loses
// the oldest ones; gaps in Seq show it. The channel is closed when ctx ends.
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
