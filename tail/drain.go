package tail

import (
	"context"

	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// When the tailer stops, files that have a name stay where they are, and the next
// run goes on in them. What is left in those that have none is read now.

// drainDeleted reads deleted files to their end at a stop, until ctx ends: no later run could find them.
func (t *Tailer) drainDeleted(ctx context.Context) {
	files, done := t.startDrain()
	if files > 0 {
		t.o.Logger.Info("reading deleted files to their end before the agent stops", "files", files)
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// loseDeleted counts and logs the bytes of deleted files that were not read before the stop. It is for the
// end of Run: until then a turn may still hand some of them over. The caller holds mu.
func (t *Tailer) loseDeleted() {
	for _, r := range t.turns.deleted {
		info, ahead := r.k.info.Info(), r.k.ahead
		if r.k.reader == r && r.reading != nil {
			ahead = r.Skips
		}
		if t.lose(r.k.file(), &info, r.path(), r.k.position, r.shown.size, ahead, "deleted file was not read to its end before the agent stopped, its unread bytes are lost",
			"fix", "raise shutdown_timeout, or see what is in the way of reading it") {
			t.restate(r.k, info)
		}
	}
}

// startDrain prepares a stop: from now on only readers of deleted files have turns. files is how many there
// are; done is closed when these are read to their end.
func (t *Tailer) startDrain() (files int, done <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns.drained = make(chan struct{})
	for in := range t.everyInput {
		for _, s := range in.streams {
			t.turns.queue, s.waiting = append(t.turns.queue, s.waiting...), nil
		}
	}
	for _, r := range t.turns.queue {
		t.apply(r, tracker.Unqueued{})
	}
	t.turns.queue = nil
	t.turns.tracker.Stop()
	for in := range t.everyInput { // one that was removed just now may still have readers
		for r := range in.readers.All() {
			if r.f == nil || r.k.reader != r {
				continue // found again by its name, or another reader goes on with it
			}
			if st, err := inode.In(r.f); err != nil || st.Links > 0 {
				continue
			}
			t.turns.deleted = append(t.turns.deleted, r)
			t.apply(r, tracker.Drained{})
		}
	}
	if len(t.turns.deleted) == 0 {
		close(t.turns.drained)
	}
	t.turns.ended.Broadcast()
	return len(t.turns.deleted), t.turns.drained
}
