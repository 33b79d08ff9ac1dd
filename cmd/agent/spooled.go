package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/journal"
	"kusto-agent/ledger"
	"kusto-agent/record"
	"kusto-agent/spool"
	"kusto-agent/tail"
	"kusto-agent/telemetry"
)

// What the spool tells the other rooms while the agent runs, and how a payload that
// it has lost is made again.

// spoolOptions are what the spool tells of its payloads. It tells nothing before
// all rooms are built.
func (a *agent) spoolOptions() spool.Options {
	return spool.Options{
		Logger: a.log, OnDrop: a.spoolDropped, OnLost: a.spoolLost, Rebuild: a.rebuildSpooled,
		OnUnwanted: func(ids []record.BatchID) {
			for _, id := range ids { // it goes another way: a later start is not to send what it finds of it
				_ = a.journal.EndReplay(id, record.Replaced)
			}
		},
		OnRemove:     func(ids []record.BatchID) { a.journal.Removed(ids) },
		BeforeUnlink: func() error { return a.journal.Sync() },
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	p.Inputs(func(input string, _ int) { durable = durable || a.durable[input] })
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
