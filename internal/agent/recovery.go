package agent

import (
	"errors"
	"os"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/spool"
	"kusto-agent/tail"
)

// What becomes of batches that were begun by an earlier run, and of what the spool has
// lost, is decided in the room recovery. Here it is joined with the others.

// buildRecovery makes the recovery of this agent and runs it once, at the start: the spool, the
// journal and the record counts agree after that. held is what the spool found when it was
// opened, found what the journal found. fresh says that the folder of the spool did not exist;
// then the spool cannot tell which of its payloads are missing, and the recovery takes from the
// journal which ones it should have.
func (a *Agent) buildRecovery(held *spool.Recovery, found *journal.Recovery, fresh bool) error {
	a.recovery = recovery.New(recovery.Stores{
		Journal: a.journal, Frames: spooledIn{a.journal, a.journalDir()}, Ranges: a.journal, Spool: a.spool,
		Books: a.ledger, Shelf: a.ledger, Quarantine: quarantineOf{a}, Logger: a.Log,
		NewID: func() record.BatchID { return record.BatchID(uuid.New()) },
		Retry: a.Retry, Segments: a.spool, SpoolHas: a.journal.SpoolHas,
	})
	what := recovery.Found{
		Replays: found.Replays, Ended: found.Ended, Clean: found.Clean, Had: found.Spool, Has: held.Segments,
		Report: func() (bool, []*record.Payload) { return held.Lost || held.Torn || found.Holes || fresh, held.Missing },
	}
	for i := range found.Begun {
		what.Begun = append(what.Begun, &found.Begun[i].Payload)
	}
	return a.recovery.Reconcile(what)
}

// isFresh reports whether the folder of the spool does not exist although there should be one.
func (a *Agent) isFresh() bool {
	_, err := os.Stat(a.Config.Spool.Dir)
	return errors.Is(err, os.ErrNotExist) && a.Config.Spool.MaxSize > 0
}

// recoveryRooms returns what the recovery needs to read files and to send.
func (a *Agent) recoveryRooms() recovery.Rooms {
	return recovery.Rooms{Source: sources{a.tail}, Packer: a.batcher, Sender: a.sender}
}

// isUnread reports whether batches of an earlier run, or lost ones, still have to be read again; those
// of inputs that are not configured do not count.
func (a *Agent) isUnread() bool {
	now, waiting, absent := a.recovery.Pending()
	return now > 0 || waiting > absent
}

// spooledIn is what the journal and its history know of the spool.
type spooledIn struct {
	*journal.Journal
	dir string
}

func (s spooledIn) InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	return journal.InSpool(s.dir, want)
}

// quarantineOf is that of an agent: it is opened after the stores.
type quarantineOf struct{ *Agent }

func (q quarantineOf) Put(recs []record.Rejected) error { return q.quarantine.Put(recs) }

// sources has recovery read files as tail does.
type sources struct{ *tail.Tailer }

func (s sources) Shaped(p *record.Payload) error { return sourceErr(s.Tailer.Shaped(p)) }

// Read makes the body of a batch again from its files and reports whether it has the batch's checksum.
func (s sources) Read(p *record.Payload) (body []byte, same bool, err error) {
	body, err = s.ReadSpans(p)
	return body, err == nil && batcher.Checksum(body) == p.CRC, sourceErr(err)
}

// Anew reads the ranges of a batch with the present settings of their inputs.
func (s sources) Anew(p *record.Payload) (*recovery.Reading, error) {
	read, err := s.ReadAnew(p)
	if err != nil {
		return nil, sourceErr(err)
	}
	return &recovery.Reading{Parts: read.Parts, Refused: read.Refused, Empty: read.Empty}, nil
}

func (s sources) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	left, gone, err = s.Tailer.Divide(p)
	return left, gone, sourceErr(err)
}

// sourceErr returns an error of tail in such a form that errors.Is finds the matching error of
// recovery.
func sourceErr(err error) error {
	for is, as := range map[error]error{
		tail.ErrSourceGone: recovery.ErrGone, tail.ErrReshaped: recovery.ErrReshaped, tail.ErrNotConfigured: recovery.ErrNotConfigured,
	} {
		if errors.Is(err, is) {
			return &sourceError{as, err}
		}
	}
	return err
}

// sourceError is an error of tail that is one of recovery too.
type sourceError struct{ as, err error }

func (e *sourceError) Error() string   { return e.err.Error() }
func (e *sourceError) Unwrap() []error { return []error{e.as, e.err} }
