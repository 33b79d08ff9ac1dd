// Package ledger promises that every record read stands in exactly one account
// and that the accounts of an input add up in every snapshot.
//
// A record enters by Read, Filtered, Rejected or Restored. Filtered and
// rejected ones have ended with that; the others are pending until Accepted,
// Quarantined or Dropped ends them, and may rest in the spool between Spooled
// and Unspooled. Whoever ends a record says for which table it was: what tables
// got adds up to what inputs ended. What is pending is counted on its own and never computed from
// the other accounts, so that a stage that forgets a record, or ends it twice,
// shows as books that do not close (Books.Check).
package ledger

import (
	"sync"

	"kusto-agent/internal/record"
)

// Why records were dropped, as record has it.
const (
	SpoolFull  = record.DropSpoolFull
	SpoolAge   = record.DropSpoolAge
	SourceGone = record.DropSourceGone
)

// Why records were filtered: they are no data, so nothing is sent for them.
const (
	Header    = "header"    // the first record of a delimited file, filtered as told
	Blank     = "blank"     // an empty line
	Unmatched = "unmatched" // a line that is not as parse says, by on_error: drop
	Joined    = "joined"    // part of another record, or none, by the settings their ranges were read anew with
)

// Ledger keeps the books of all inputs under one lock. It is safe for
// concurrent use. Its methods are called once per block or payload, never once
// per record, and allocate only when an input or a reason is new.
//
// Counts are never negative. A count of zero opens the books of an input or a
// table, so that its accounts are shown before its first record.
type Ledger struct {
	mu     sync.Mutex
	inputs map[string]*account // guarded by mu, and so are the accounts
	tables map[Table]*Ends     // guarded by mu
}

// account is the running form of Books, with its reasons typed as the rooms
// have them.
type account struct {
	read, restored, accepted, pending, spooled, readBytes uint64

	quarantined                map[record.Reason]uint64
	dropped, filtered, changed map[string]uint64
}

// New returns a ledger with no inputs.
func New() *Ledger { return &Ledger{inputs: map[string]*account{}, tables: map[Table]*Ends{}} }

// change runs f on the account of input under the lock.
func (l *Ledger) change(input string, f func(*account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.account(input))
}

// end runs f on the account of an input, and on what its table got, under the lock.
func (l *Ledger) end(lot record.Lot, f func(*account, *Ends) *Sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	table := Table{lot.Route.Database, lot.Route.Table}
	e := l.tables[table]
	if e == nil {
		e = &Ends{}
		l.tables[table] = e
	}
	s := f(l.account(lot.Input), e)
	s.Records += uint64(lot.Records)
	s.Bytes += uint64(lot.Bytes)
}

// account is that of an input. The caller holds mu.
func (l *Ledger) account(input string) *account {
	a := l.inputs[input]
	if a == nil {
		a = &account{
			quarantined: map[record.Reason]uint64{},
			dropped:     map[string]uint64{},
			filtered:    map[string]uint64{},
		}
		l.inputs[input] = a
	}
	return a
}

// Read enters records that were read from a file and are now pending, and the
// bytes that reading took. Bytes of filtered and rejected records are told
// here too, with a count of zero where no record goes with them.
func (l *Ledger) Read(input string, records int, bytes int64) {
	l.change(input, func(a *account) {
		a.read += uint64(records)
		a.pending += uint64(records)
		a.readBytes += uint64(bytes)
	})
}

// Filtered enters records that were read and end at once, for they are no
// data.
func (l *Ledger) Filtered(input, reason string, records int) {
	l.change(input, func(a *account) {
		a.read += uint64(records)
		if records > 0 {
			a.filtered[reason] += uint64(records)
		}
	})
}

// Changed counts records that a rule has changed. It ends none.
func (l *Ledger) Changed(input, rule string, records int) {
	l.change(input, func(a *account) {
		if a.changed == nil {
			a.changed = map[string]uint64{}
		}
		a.changed[rule] += uint64(records)
	})
}

// Rejected enters records that were read, refused by the local check, and are
// in quarantine.
func (l *Ledger) Rejected(lot record.Lot, reason record.Reason) {
	l.end(lot, func(a *account, e *Ends) *Sum {
		a.read += uint64(lot.Records)
		if lot.Records > 0 {
			a.quarantined[reason] += uint64(lot.Records)
		}
		return &e.Quarantined
	})
}

// Restored enters records that come into this run other than by reading: from
// the spool at start, as a rebuilt batch, or requeued from quarantine.
func (l *Ledger) Restored(input string, n int) {
	l.change(input, func(a *account) {
		a.restored += uint64(n)
		a.pending += uint64(n)
	})
}

// Accepted ends pending records: the service took them.
func (l *Ledger) Accepted(lot record.Lot) {
	l.end(lot, func(a *account, e *Ends) *Sum {
		a.pending -= uint64(lot.Records)
		a.accepted += uint64(lot.Records)
		return &e.Accepted
	})
}

// Quarantined ends pending records: they are durable in quarantine.
func (l *Ledger) Quarantined(lot record.Lot, reason record.Reason) {
	l.end(lot, func(a *account, e *Ends) *Sum {
		a.pending -= uint64(lot.Records)
		if lot.Records > 0 {
			a.quarantined[reason] += uint64(lot.Records)
		}
		return &e.Quarantined
	})
}

// Dropped ends pending records that are given up as the configuration allows.
// What is dropped out of the spool is first Unspooled.
func (l *Ledger) Dropped(lot record.Lot, reason string) {
	l.end(lot, func(a *account, e *Ends) *Sum {
		a.pending -= uint64(lot.Records)
		if lot.Records > 0 {
			a.dropped[reason] += uint64(lot.Records)
		}
		return &e.Dropped
	})
}

// Spooled moves pending records to the spool, where they are durable.
func (l *Ledger) Spooled(input string, n int) {
	l.change(input, func(a *account) {
		a.pending -= uint64(n)
		a.spooled += uint64(n)
	})
}

// Unspooled moves records from the spool back to pending.
func (l *Ledger) Unspooled(input string, n int) {
	l.change(input, func(a *account) {
		a.spooled -= uint64(n)
		a.pending += uint64(n)
	})
}

// Joined ends pending records that were replaced: their ranges were read again with other
// settings, and the records found there were entered by Restored.
func (l *Ledger) Joined(input string, n int) {
	l.change(input, func(a *account) {
		a.pending -= uint64(n)
		if n > 0 {
			a.filtered[Joined] += uint64(n)
		}
	})
}

// Snapshot copies the books of every input at one instant. The caller owns the
// copy.
func (l *Ledger) Snapshot() map[string]Books {
	inputs, _ := l.Report()
	return inputs
}

// Report copies the books of every input and what every table got, all at one
// instant. The caller owns the copies.
func (l *Ledger) Report() (inputs map[string]Books, tables map[Table]Ends) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inputs = make(map[string]Books, len(l.inputs))
	for input, a := range l.inputs {
		inputs[input] = a.books()
	}
	tables = make(map[Table]Ends, len(l.tables))
	for table, e := range l.tables {
		tables[table] = *e
	}
	return inputs, tables
}
