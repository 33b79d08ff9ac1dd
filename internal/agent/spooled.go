package agent

import (
	"errors"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/spool"
)

// What the spool tells the other rooms while the agent runs.

// spoolOptions are what the spool tells of its payloads. It tells nothing before
// all stores are open, and what has to be read again is handed to recovery: nothing
// here waits for a file.
func (a *Agent) spoolOptions() spool.Options {
	return spool.Options{
		Logger: a.Log, OnDrop: a.spoolDropped,
		OnLost: func(ids []record.BatchID, what *record.Payload) { a.recovery.Lost(ids, what) },
		Rebuild: func(p *record.Payload) error {
			if a.recovery.Damaged(p) {
				return nil
			}
			return spool.ErrGone
		},
		OnUnwanted:   func(ids []record.BatchID) { a.recovery.Unwanted(ids) },
		OnSegments:   func() { a.recovery.SegmentsChanged() },
		OnRemove:     func(ids []record.BatchID) { a.recovery.Removed(ids) },
		BeforeUnlink: a.syncJournal,
		Vouch: func() (token [24]byte, err error) {
			if a.journal == nil {
				return token, errNoJournal
			}
			return a.journal.Vouch()
		},
		Vouches: func(token [24]byte) bool { return a.journal.Vouches(token) },
	}
}

var errNoJournal = errors.New("journal is not open")

// syncJournal makes durable how payloads ended. Where the journal could not be opened the
// spool is closed again, and nothing is to be removed from it.
func (a *Agent) syncJournal() error {
	if a.journal == nil {
		return errNoJournal
	}
	return a.journal.Sync()
}

// spoolDropped is told of payloads that are given up as the configuration allows, or by a person. Those
// that the spool cannot read are with recovery.
func (a *Agent) spoolDropped(p *record.Payload, reason string) {
	if reason == ledger.SourceGone {
		return
	}
	if p.ID != (record.BatchID{}) {
		how := record.Dropped
		if reason == record.DropRemoved {
			how = record.Removed
		}
		_ = a.journal.EndReplay(p.ID, how)
		a.recovery.Dropped(p.ID)
	}
	p.Lots(func(lot record.Lot) {
		a.ledger.Unspooled(lot.Input, lot.Records)
		a.ledger.Dropped(lot, reason)
	})
}

// isDurable says whether a payload holds records of an input that wants them in
// the spool before they are sent.
func (a *Agent) isDurable(p *record.Payload) (durable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.Inputs(func(input string, _ int) { durable = durable || a.durable[input] })
	return durable
}

// spoolStatus is nil where there is no spool and nothing in it.
func (a *Agent) spoolStatus() *telemetry.Spool {
	st := a.spool.Stats()
	err := a.spool.Health()
	if errors.Is(err, spool.ErrOff) {
		if st.Frames == 0 {
			return nil
		}
		err = nil
	}
	out := &telemetry.Spool{Bytes: st.Bytes, MaxBytes: int64(a.config().Spool.MaxSize), Payloads: st.Frames, Oldest: st.Oldest}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// foreignSpool is how many payloads the spool has for clusters that are not
// configured, by URL.
func (a *Agent) foreignSpool() map[string]int {
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
	return "if its URL was wrong: kusto-agent spool replay --cluster " + cluster
}
