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

// buildRecovery makes the recovery, the part that takes care of batches of earlier runs, and
// reconciles the stores: after that the spool, the journal and the record counts agree. held is
// what the spool found when it was opened, found what the journal found. fresh says that the folder
// of the spool did not exist. Then the journal alone knows which payloads are missing.
func (a *Agent) buildRecovery(held *spool.Recovery, found *journal.Recovery, fresh bool) error {
	a.recovery = recovery.New(recovery.Stores{
		Journal: a.journal, Frames: spooledIn{a.journal, a.journalDir()}, Ranges: a.journal, Spool: a.spool,
		Books: a.ledger, Quarantine: quarantineOf{a}, Logger: a.Log,
		NewID: func() record.BatchID { return record.BatchID(uuid.New()) },
		Retry: a.Retry, SpoolHas: a.journal.SpoolHas,
	})
	what := recovery.Found{
		Replays: found.Replays, Answered: found.Answered, Ended: found.Ended, Clean: found.Clean, Had: found.Spool, Has: held.Segments,
		Report: func() (bool, []*record.Payload) { return held.Lost || held.Torn || found.Holes || fresh, held.Missing },
	}
	for i := range found.Begun {
		what.Begun = append(what.Begun, &found.Begun[i].Payload)
	}
	return a.recovery.Reconcile(what)
}

// isFresh reports whether the folder of the spool does not exist although the spool is switched on:
// at the first start, or because somebody removed it.
func (a *Agent) isFresh() bool {
	_, err := os.Stat(a.Config.Spool.Dir)
	return errors.Is(err, os.ErrNotExist) && a.Config.Spool.MaxSize > 0
}

// isUnread reports whether batches still have to be made again from their files: batches of an
// earlier run, or payloads that the spool has lost. Batches of inputs that are not configured do
// not count.
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

// Read builds the body of the batch p again from its files. same reports whether the body has the
// checksum p.CRC, that is, whether it is what was sent at first. errors.Is finds in err the errors
// of package recovery.
func (s sources) Read(p *record.Payload) (body []byte, same bool, err error) {
	body, err = s.ReadSpans(p)
	return body, err == nil && batcher.Checksum(body) == p.CRC, sourceErr(err)
}

// Anew reads the file ranges of the batch p again with the present settings of their inputs, as
// these have changed since. It returns the new batches in Parts, the records that quarantine gets,
// and the ranges that hold nothing to send.
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

// sourceErr wraps an error of package tail so that errors.Is also finds the matching error of
// package recovery: the packages do not import each other. Other errors, and nil, are returned as
// they are.
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
