package tail

import (
	"context"

	"kusto-agent/tail/internal/tracker"
)

// When the tailer stops, files that have a name stay where they are, and the next
// run goes on in them. What is left in those that have none is read now.

// readRests reads deleted files to their end at a stop, until ctx ends, since no later run could
// find them. It counts and logs bytes that are lost because they were not read in time.
func (t *Tailer) readRests(ctx context.Context) {
	files, done := t.findRests()
	if len(files) > 0 {
		t.o.Logger.Info("reading deleted files to their end before the agent stops", "files", len(files))
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range files {
		if left := r.shown.size - r.k.position; left > 0 {
			t.abandoned(r.k.file(), r.k.position, left)
			t.o.Logger.Error("deleted file was not read to its end before the agent stopped, its unread bytes are lost", "input", r.in.Name, "file", r.path(),
				"id", r.k.id.String(), "offset", r.k.position, "bytes", left, "fix", "raise shutdown_timeout, or see what is in the way of reading it")
		}
	}
}

// findRests prepares a stop: it gives turns to the readers of deleted files (files), whose unread
// bytes no later run could find, and from now on to no others. done is closed when all of these are
// read to their end.
func (t *Tailer) findRests() (files []*reader, done <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rests = make(chan struct{})
	for in := range t.everyInput {
		for _, s := range in.streams {
			t.ring, s.waiting = append(t.ring, s.waiting...), nil
		}
	}
	for _, r := range t.ring {
		t.apply(r, tracker.Unqueued{})
	}
	t.ring = nil
	t.tracker.Stop()
	for _, in := range t.inputs {
		for r := range in.readers.All() {
			if r.f == nil {
				continue // found again by its name
			}
			if st, err := statFile(r.f); err != nil || st.links > 0 {
				continue
			}
			files = append(files, r)
			t.apply(r, tracker.Drained{})
		}
	}
	if len(files) == 0 {
		close(t.rests)
	}
	t.turned.Broadcast()
	return files, t.rests
}
