package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"kusto-agent/journal"
	"kusto-agent/record"
	"kusto-agent/spool"
)

// Spool, journal, books and files each know a part of what became of a spooled
// payload. Here they agree at the start; see spooled.go for what they tell each
// other afterwards.

// isFresh says whether the folder of the spool is not there, so that nothing in it
// can say what is missing.
func (a *agent) isFresh() bool {
	_, err := os.Stat(a.cfg.Spool.Dir)
	return errors.Is(err, os.ErrNotExist) && a.cfg.Spool.MaxSize > 0
}

// reconcile goes through the spool as an earlier run left it.
func (a *agent) reconcile(held *spool.Recovery, found *journal.Recovery, fresh bool) error {
	r := &reconciliation{
		agent: a, found: found, begun: map[record.BatchID]*journal.Begun{},
		parents: map[record.BatchID]bool{}, there: map[record.BatchID]bool{}, lost: held.Lost || fresh,
	}
	for i := range a.begun {
		r.begun[a.begun[i].ID] = &a.begun[i]
	}
	err := a.spool.Held(func(p *record.Payload, _ bool) bool {
		if p.Replaces != (record.BatchID{}) {
			r.parents[p.Replaces] = false
		}
		return true
	})
	if r.lost = r.lost || held.Lost; err == nil { // it may have found more
		err = a.spool.Held(r.meet)
	}
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	a.begun = slices.DeleteFunc(a.begun, func(b journal.Begun) bool { return r.begun[b.ID] == nil })
	if err := r.suspect(); err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	r.forget()
	if !r.lost {
		return nil
	}
	return r.findMissing()
}

// suspect notes that something is missing where a payload is that was tried out of
// the spool and has not ended: a segment was taken away.
func (r *reconciliation) suspect() error {
	for id := range r.found.Replays {
		r.lost = r.lost || !r.there[id]
	}
	if !r.lost {
		return nil
	}
	return r.spool.Held(func(p *record.Payload, _ bool) bool {
		r.there[p.ID] = true
		return true
	})
}

// reconciliation is what is known while the spool is gone through.
type reconciliation struct {
	*agent
	found   *journal.Recovery
	begun   map[record.BatchID]*journal.Begun // those the spool does not have
	parents map[record.BatchID]bool           // those that were halved, and whether they are there and not ended
	there   map[record.BatchID]bool           // what the spool has, of those that somebody asks for
	lost    bool                              // something may be missing: somebody asks for all
}

// meet decides about one payload of the spool: whether it is to be sent from there.
func (r *reconciliation) meet(p *record.Payload, sound bool) bool {
	_, ended := r.found.Ended[p.ID]
	n, replayed := r.found.Replays[p.ID]
	if ended || replayed || r.lost {
		r.there[p.ID] = true
	}
	if begun := r.begun[p.ID] != nil; ended && !(begun && sound) {
		return false // if begun, it was put here anew after what is known of its end
	}
	// The whole is there, so this half was not tried yet; or the writing was cut
	// short. The frame stays on disk: the next start is to know that it counts for nothing.
	if r.parents[p.Replaces] || !r.safe(p, sound) {
		_ = r.journal.EndReplay(p.ID, record.Replaced)
		return false
	}
	if _, halved := r.parents[p.ID]; halved {
		r.parents[p.ID] = true
	}
	p.Inputs(func(input string, n int) {
		r.ledger.Restored(input, n)
		r.ledger.Spooled(input, n)
	})
	if replayed {
		r.spool.Attempted(p.ID, n)
		if !r.found.Clean {
			r.log.Warn("outcome of a batch of an earlier run is unknown, it is sent again and may be stored twice", "batch", p.ID.String(),
				"database", p.Route.Database, "table", p.Route.Table, "ranges", ranges(p.Cover), "records", p.Records, "attempt", n)
		}
	}
	return true
}

// safe sees to it that the journal knows the ranges of a payload as safe. It
// returns false for one whose writing was cut short: nobody relied on it.
func (r *reconciliation) safe(p *record.Payload, sound bool) bool {
	b := r.begun[p.ID]
	switch {
	case b == nil && r.journal.Covers(p):
		return true // if its body is damaged, it is read again when its turn comes
	case !sound:
		return false // made again as begun, or read again
	case b != nil:
		r.spool.Attempted(p.ID, b.Attempt)
		delete(r.begun, p.ID)
	default:
		_ = r.journal.Begin(p) // a power cut took what the journal knew
	}
	_ = r.journal.End(p.ID, record.Spooled)
	return true
}

// forget lets the journal forget what is no longer in the spool.
func (r *reconciliation) forget() {
	var gone []record.BatchID
	for id := range r.found.Ended {
		if !r.there[id] {
			gone = append(gone, id)
		}
	}
	for id := range r.found.Replays {
		if !r.there[id] {
			gone = append(gone, id)
		}
	}
	r.journal.Removed(gone)
}

// findMissing has those read again that the journal says are in the spool and that
// are not, after it was damaged or removed.
func (r *reconciliation) findMissing() error {
	all, err := journal.InSpool(r.journalDir())
	if err != nil {
		return err
	}
	for id, p := range all {
		if !r.there[id] {
			p.Attempt = max(p.Attempt, r.found.Replays[id])
			_ = r.journal.Replay(id, p.Attempt) // so that a start after this one misses it too
			r.missing = append(r.missing, p)
		}
	}
	slices.SortFunc(r.missing, func(a, b *record.Payload) int {
		return cmp.Or(a.ReadAt.Compare(b.ReadAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return nil
}
