package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/config"
	"kusto-agent/journal"
	"kusto-agent/ledger"
	"kusto-agent/record"
	"kusto-agent/spool"
	"kusto-agent/tail"
	"kusto-agent/telemetry"
)

// Spool, journal, books and files each know a part of what became of a spooled
// payload. Here is what each tells the others.

// spoolOptions are what the spool tells of its payloads. It tells nothing before
// all rooms are built.
func (a *agent) spoolOptions() spool.Options {
	return spool.Options{
		Logger: a.log, OnDrop: a.spoolDropped, OnLost: a.spoolLost, Rebuild: a.rebuildSpooled,
		OnRemove:     func(ids []record.BatchID) { a.journal.Removed(ids) },
		BeforeUnlink: func() error { return a.journal.Sync() },
	}
}

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
	if err == nil {
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

// refill puts a payload back into the spool whose frame is gone, read again from
// its files; where the spool cannot take it, into the sender.
func (a *agent) refill(p *record.Payload) error {
	was := p.ID
	if err := a.rebuildSpooled(p); err != nil {
		return err
	}
	a.log.Warn("spooled batch was lost and is read again from its files", "batch", p.ID.String(), "database", p.Route.Database,
		"table", p.Route.Table, "ranges", ranges(p.Cover), "records", p.Records, "attempt", p.Attempt)
	if a.spool.Put(p) == nil {
		a.sender.Expect(p.Route)
	} else {
		p.Inputs(a.ledger.Unspooled)
		a.batcher.Adopt(p)
		a.sender.Put(p)
	}
	if p.ID != was {
		_ = a.journal.EndReplay(was, record.Replaced)
	}
	return nil
}

// restoreMissing brings back what was in the spool and is not there any more, until
// ctx ends: the next start goes on with it.
func (a *agent) restoreMissing(ctx context.Context) {
	var left []*record.Payload
	for _, p := range a.missing {
		if a.sender.Serves(p.Route.Cluster) {
			p.Inputs(func(input string, n int) {
				a.ledger.Restored(input, n)
				a.ledger.Spooled(input, n)
			})
			left = append(left, p)
		}
	}
	const again = 10 * time.Second // for files that cannot be read just now
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		if left = a.restore(ctx, left); len(left) == 0 || a.once {
			a.unread = a.unread || len(left) > 0
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// restore tries each once and returns those that are to be tried again.
func (a *agent) restore(ctx context.Context, missing []*record.Payload) (left []*record.Payload) {
	for i, p := range missing {
		if ctx.Err() != nil {
			return append(left, missing[i:]...)
		}
		switch err := a.refill(p); {
		case errors.Is(err, spool.ErrGone):
			a.spoolDropped(p, ledger.SourceGone)
		case err != nil:
			a.log.Warn("spooled batch was lost and cannot be read again just now", "batch", p.ID.String(), "ranges", ranges(p.Cover),
				"records", p.Records, "err", err)
			left = append(left, p)
		}
	}
	return left
}

// rebuildSpooled makes the body of a spooled payload again, and tells where nothing
// is left of it.
func (a *agent) rebuildSpooled(p *record.Payload) error {
	err := a.reread(p)
	if errors.Is(err, spool.ErrGone) {
		a.log.Error("records were in the spool and are lost: their source is gone too", "batch", p.ID.String(), "database", p.Route.Database,
			"table", p.Route.Table, "ranges", ranges(p.Cover), "records", p.Records, "err", err)
	}
	return err
}

func (a *agent) reread(p *record.Payload) error {
	if len(p.Cover) == 0 {
		all, err := journal.InSpool(a.journalDir())
		if err != nil {
			return err
		}
		known := all[p.ID]
		if known == nil {
			return fmt.Errorf("%w: the journal does not reach back to it", spool.ErrGone)
		}
		known.Attempt = max(known.Attempt, p.Attempt)
		*p = *known
	}
	was := p.CRC
	raw, err := a.tail.ReadSpans(p)
	switch {
	case errors.Is(err, tail.ErrSourceGone):
		return fmt.Errorf("%w: %w", spool.ErrGone, err)
	case err != nil:
		return err
	}
	if batcher.Checksum(raw) != was {
		p.ID, p.Replaces, p.Attempt = record.BatchID(uuid.New()), p.ID, 0
		a.log.Warn("spooled batch has another body now, it is sent under a new id", "batch", p.Replaces.String(), "replaced_by", p.ID.String())
	}
	a.batcher.Fill(p, raw)
	return nil
}

// spoolLost is told of payloads that vanished from the spool while it was open.
func (a *agent) spoolLost(ids []record.BatchID, what *record.Payload) {
	left := map[string]int{}
	what.Inputs(func(input string, n int) { left[input] += n })
	all, err := journal.InSpool(a.journalDir())
	if err != nil {
		a.log.Error("history of the journal cannot be read, nothing can be told of payloads that vanished from the spool", "err", err)
	}
	for _, id := range ids {
		p := all[id]
		if p != nil && a.refill(p) == nil {
			p.Inputs(func(input string, n int) { left[input] -= n })
			continue
		}
		_ = a.journal.EndReplay(id, record.SourceGone)
	}
	for input, n := range left {
		if n > 0 {
			a.log.Error("records vanished from the spool and are lost: their source is gone too", "input", input, "records", n)
			a.ledger.Unspooled(input, n)
			a.ledger.Dropped(input, ledger.SourceGone, n)
		}
	}
}

// spoolDropped is told of payloads that are given up.
func (a *agent) spoolDropped(p *record.Payload, reason string) {
	how := record.Dropped
	if reason == ledger.SourceGone {
		how = record.SourceGone
	}
	if p.ID != (record.BatchID{}) {
		_ = a.journal.EndReplay(p.ID, how)
	}
	p.Inputs(func(input string, n int) {
		a.ledger.Unspooled(input, n)
		a.ledger.Dropped(input, reason, n)
	})
}

// isDurable says whether a payload holds records of an input that wants them in
// the spool before they are sent.
func (a *agent) isDurable(p *record.Payload) (durable bool) {
	p.Inputs(func(input string, _ int) {
		durable = durable || slices.ContainsFunc(a.cfg.Inputs, func(in config.Input) bool {
			return in.Name == input && in.Durability == "spool"
		})
	})
	return durable
}

// spoolStatus is nil where there is no spool and nothing in it.
func (a *agent) spoolStatus() *telemetry.Spool {
	st := a.spool.Stats()
	err := a.spool.Health()
	if errors.Is(err, spool.ErrOff) {
		if st.Frames == 0 {
			return nil
		}
		err = nil
	}
	out := &telemetry.Spool{Bytes: st.Bytes, Payloads: st.Frames, Oldest: st.Oldest}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// foreignSpool is how many payloads the spool has for clusters that are not
// configured, by URL.
func (a *agent) foreignSpool() map[string]int {
	waiting := map[string]int{}
	for r, st := range a.spool.Stats().Routes {
		if !a.sender.Serves(r.Cluster) {
			waiting[r.Cluster] += st.Frames
		}
	}
	return waiting
}

// replayFix is what to do about them.
func replayFix(cluster string) string {
	return "if its URL was wrong, stop the agent and run: kusto-agent spool replay --cluster " + cluster
}
