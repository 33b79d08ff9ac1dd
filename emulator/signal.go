package emulator

import (
	"context"
	"sync"
)

// signal wakes those who wait for a change. The zero value is ready, and safe for concurrent use.
type signal struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next change; nil: nobody has asked for it
}

// fire says that something has changed.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// changed returns a channel that is closed by the next change.
func (s *signal) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// wait returns nil as soon as done is true, or ctx's error. It calls done at first and after each
// change. It gets the channel before it calls done, so that no change between the two is missed.
func (s *signal) wait(ctx context.Context, done func() bool) error {
	for {
		next := s.changed()
		if done() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
