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
	inputs map[string]*Books // guarded by mu, and so are the books
	tables map[Table]*Ends   // guarded by mu
}

// New returns a ledger with no inputs.
func New() *Ledger { return &Ledger{inputs: map[string]*Books{}, tables: map[Table]*Ends{}} }

// change calls f with the books of the input, with the lock held. Books that do not exist yet are
// made.
func (l *Ledger) change(input string, f func(*Books)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.books(input))
}

// end counts a lot, records of one input for one table that have ended. It calls f with the books
// of the input and the sums of the table, with the lock held. f changes the books and returns the
// sum that the lot belongs to (accepted, quarantined or dropped); end adds the records and bytes to
// that.
func (l *Ledger) end(lot record.Lot, f func(*Books, *Ends) *Sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	table := Table{lot.Route.Database, lot.Route.Table}
	e := l.tables[table]
	if e == nil {
		e = &Ends{}
		l.tables[table] = e
	}
	s := f(l.books(lot.Input), e)
	s.Records += uint64(lot.Records)
	s.Bytes += uint64(lot.Bytes)
}

// books returns the books of an input, and makes them if there are none yet. The caller holds mu.
func (l *Ledger) books(input string) *Books {
	b := l.inputs[input]
	if b == nil {
		b = &Books{Quarantined: map[string]uint64{}, Dropped: map[string]uint64{}, Filtered: map[string]uint64{}}
		l.inputs[input] = b
	}
	return b
}

// add adds records to the account of a reason, or of a rule. A reason gets an account with its first
// record.
func add[K ~string](accounts map[string]uint64, reason K, records int) {
	if records > 0 {
		accounts[string(reason)] += uint64(records)
	}
}

// Read counts records that were read from files and are pending from now on, and the bytes that
// were read. Filtered and rejected records are counted by their own methods, but their bytes are
// counted here, with records 0 if no others were read.
func (l *Ledger) Read(input string, records int, bytes int64) {
	l.change(input, func(b *Books) {
		b.Read += uint64(records)
		b.Pending += uint64(records)
		b.ReadBytes += uint64(bytes)
	})
}

// Filtered counts records that were read but are not sent, for this reason: for example headers,
// blank lines, or what a rule leaves out. They are never pending.
func (l *Ledger) Filtered(input, reason string, records int) {
	l.change(input, func(b *Books) {
		b.Read += uint64(records)
		add(b.Filtered, reason, records)
	})
}

// Changed counts records that this rule has changed. They stay in the accounts that they are in.
func (l *Ledger) Changed(input, rule string, records int) {
	l.change(input, func(b *Books) {
		if b.Changed == nil {
			b.Changed = map[string]uint64{}
		}
		b.Changed[rule] += uint64(records)
	})
}

// Rejected counts records that were read and refused by the agent itself, for this reason, and are
// in quarantine. They are never pending.
func (l *Ledger) Rejected(lot record.Lot, reason record.Reason) {
	l.end(lot, func(b *Books, e *Ends) *Sum {
		b.Read += uint64(lot.Records)
		add(b.Quarantined, reason, lot.Records)
		return &e.Quarantined
	})
}

// Restored counts n records that come into this run in another way than by reading, and are pending
// from now on: from the spool at the start, in a batch that was made again, or requeued from
// quarantine.
func (l *Ledger) Restored(input string, n int) {
	l.change(input, func(b *Books) {
		b.Restored += uint64(n)
		b.Pending += uint64(n)
	})
}

// Accepted moves the pending records of the lot to the account of accepted ones: the service has
// stored them.
func (l *Ledger) Accepted(lot record.Lot) {
	l.end(lot, func(b *Books, e *Ends) *Sum {
		b.Pending -= uint64(lot.Records)
		b.Accepted += uint64(lot.Records)
		return &e.Accepted
	})
}

// Quarantined moves the pending records of the lot to the account of quarantined ones, under this
// reason: they are durable in quarantine.
func (l *Ledger) Quarantined(lot record.Lot, reason record.Reason) {
	l.end(lot, func(b *Books, e *Ends) *Sum {
		b.Pending -= uint64(lot.Records)
		add(b.Quarantined, reason, lot.Records)
		return &e.Quarantined
	})
}

// Dropped moves the pending records of the lot to the account of dropped ones, under this reason:
// they are given up as the configuration allows. For records in the spool Unspooled is called
// first.
func (l *Ledger) Dropped(lot record.Lot, reason string) {
	l.end(lot, func(b *Books, e *Ends) *Sum {
		b.Pending -= uint64(lot.Records)
		add(b.Dropped, reason, lot.Records)
		return &e.Dropped
	})
}

// Spooled moves n pending records of the input to the account of spooled ones: they are durable in
// the spool.
func (l *Ledger) Spooled(input string, n int) {
	l.change(input, func(b *Books) {
		b.Pending -= uint64(n)
		b.Spooled += uint64(n)
	})
}

// Unspooled moves n records of the input from the account of spooled ones back to pending, when
// they are read from the spool to be sent, or before they end in another way.
func (l *Ledger) Unspooled(input string, n int) {
	l.change(input, func(b *Books) {
		b.Spooled -= uint64(n)
		b.Pending += uint64(n)
	})
}

// Joined moves n pending records of the input to the account of filtered ones. Their ranges were
// read again with other settings; the records found there replace them, and are counted by
// Restored.
func (l *Ledger) Joined(input string, n int) {
	l.change(input, func(b *Books) {
		b.Pending -= uint64(n)
		add(b.Filtered, Joined, n)
	})
}

// Snapshot returns the books of every input, by its name, all at one instant. The caller owns the
// copy.
func (l *Ledger) Snapshot() map[string]Books {
	inputs, _ := l.Report()
	return inputs
}

// Report returns the books of every input, by name, and how the records for every table ended, all
// at one instant. The caller owns the copies.
func (l *Ledger) Report() (inputs map[string]Books, tables map[Table]Ends) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inputs = make(map[string]Books, len(l.inputs))
	for input, b := range l.inputs {
		inputs[input] = b.clone()
	}
	tables = make(map[Table]Ends, len(l.tables))
	for table, e := range l.tables {
		tables[table] = *e
	}
	return inputs, tables
}
