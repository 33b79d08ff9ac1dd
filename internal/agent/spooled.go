package agent

import (
	"errors"
	"os"
	"path/filepath"

	"kusto-agent/internal/config"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/spool"
)

// What the spool tells the other rooms while the agent runs.

// spoolOptions returns the callbacks through which the spool reports lost, dropped and removed
// payloads and asks the journal. They are called only once all stores are open; only BeforeUnlink
// and Vouch can come earlier, and fail then. No callback reads log files: payloads that have to be
// made again are left to the recovery.
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
		OnMove:       a.spoolMoves,
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

// syncJournal syncs the journal to disk before the spool removes a file, so that the ends of its
// payloads are durable. It fails if the journal is not open yet; then the spool removes nothing.
func (a *Agent) syncJournal() error {
	if a.journal == nil {
		return errNoJournal
	}
	return a.journal.Sync()
}

// spoolDropped is called for each payload that the spool has dropped: it writes the end to the
// journal and counts the records as dropped for this reason. Payloads that could not be read (the
// reason ledger.SourceGone) are left to the recovery, which counts them.
func (a *Agent) spoolDropped(p *record.Payload, reason string) {
	if a.sender != nil {
		a.sender.Forget(p.Route, p.ID)
	}
	if reason == ledger.SourceGone {
		return
	}
	if p.ID != (record.BatchID{}) { // without an id the journal has nothing to end
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

// spoolMoves tells the journal that a payload in the spool goes to another cluster, since audit names
// the cluster that accepted a batch.
func (a *Agent) spoolMoves(p *record.Payload) {
	moved := *p
	moved.Replaces = record.BatchID{} // that ended when the payload came to the spool
	_ = a.journal.Begin(&moved)
	_ = a.journal.End(p.ID, record.Spooled)
}

// isDurable reports whether a payload has records of an input with durability: spool, so that it
// must be in the spool before it is sent.
func (a *Agent) isDurable(p *record.Payload) (durable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.Inputs(func(input string, _ int) { durable = durable || a.durable[input] })
	return durable
}

// spoolStatus returns the state of the spool for the status; nil if it is switched off and empty.
func (a *Agent) spoolStatus() *telemetry.Spool {
	st := a.spool.Stats()
	err := a.spool.Health()
	if errors.Is(err, spool.ErrOff) {
		if st.Frames == 0 {
			return nil
		}
		err = nil
	}
	out := &telemetry.Spool{Dir: config.Absolute(a.Config.Spool.Dir), Bytes: st.Bytes, MaxBytes: int64(a.config().Spool.MaxSize), Payloads: st.Frames, Oldest: st.Oldest}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// tellLeftBehind logs that payloads lie in the folder that the spool has by default, though spool.dir is
// another one: as after it was set in an outage. They are not sent from there. ended has how payloads
// ended that may still lie in a spool: of these only those count that were given up for want of them.
func (a *Agent) tellLeftBehind(ended map[record.BatchID]record.Outcome) {
	old := filepath.Join(a.Config.StateDir, "spool")
	before, err := os.Stat(old)
	now, err2 := os.Stat(a.Config.Spool.Dir)
	if err != nil || err2 == nil && os.SameFile(before, now) {
		return
	}
	found := errors.New("found")
	err = spool.List(old, func(e spool.Entry) error {
		if e.Payload == nil {
			return nil
		}
		if how, over := ended[e.Payload.ID]; over && how != record.SourceGone {
			return nil
		}
		return found
	})
	if errors.Is(err, found) {
		a.Log.Error("spool.dir is another folder than before, and payloads are left in the one before: they are not sent from there, and where their files are gone their records are missing",
			"folder", old, "fix", "set spool.dir back to this folder until they are sent, or, if they are not wanted, remove it")
	}
}

// foreignSpool returns, by cluster URL, how many payloads in the spool are for clusters that no
// input sends to.
func (a *Agent) foreignSpool() map[string]int {
	waiting := map[string]int{}
	for r, n := range a.spool.Stats().Routes {
		if !a.sender.Serves(r.Cluster) {
			waiting[r.Cluster] += n
		}
	}
	return waiting
}

// replayFix is what to do about them.
func replayFix(cluster string) string {
	return "if its URL was wrong: kusto-agent spool replay --cluster " + cluster
}
