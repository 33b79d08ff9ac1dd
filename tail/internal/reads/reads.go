// Package reads decides how many bytes of a file are read at once, so that reading goes on wherever it
// can: less where memory is short or quarantine takes no more bad records, more where a record did not
// fit.
package reads

import "kusto-agent/internal/format"

// Bounds are those of the next read of a file. The zero Bounds are those of a file that was not read.
type Bounds struct {
	narrow  int64 // >0: most bytes of it, since quarantine would not take all of the last
	chosen  bool  // narrow was chosen for what lies here
	atOnce  bool  // what lies here cannot be read in parts
	short   bool  // the last read was shorter than it could have been
	unbound bool  // the next may not be: a record did not fit
}

// AreNone reports whether the next read is bound by nothing but its limits.
func (b *Bounds) AreNone() bool { return b.narrow == 0 && !b.chosen && !b.atOnce && !b.unbound }

// Limits are what a read should not exceed, in bytes; a record that does not fit is read all the same.
type Limits struct {
	Most  int64 // for which there is memory
	Block int64 // reads that are shorter get no block of their own,
	Kept  int64 // but memory for so many bytes, which is kept
}

// Want returns how many of the bytes that are there the next read takes.
func (b *Bounds) Want(there int64, l Limits) int64 {
	want := there
	if b.narrow > 0 {
		want = min(want, b.narrow)
	}
	b.short = false
	if b.unbound {
		return want
	}
	most := min(want, l.Most)
	if most < l.Block {
		most = min(most, l.Kept)
	}
	b.short = most < want
	return most
}

// NoRecord notes that no record ends in the rest of a read, and reports whether another read at the
// same offset may find one. whole says that this rest is all of the read.
func (b *Bounds) NoRecord(whole bool) (again bool) {
	switch {
	case b.narrow > 0: // it ended inside a record
		b.narrow, b.atOnce = 0, b.chosen
	case b.short:
		b.unbound = whole
	default:
		return false
	}
	return true
}

// Unkept shortens the next read because quarantine did not take the rejected records of a read, so that
// the file is read up to the record that has to wait. It returns false if a shorter read is not
// possible or, as the disk is stalled and each try would wait for it, would not help.
func (b *Bounds) Unkept(rejected []format.Reject, stalled bool) (again bool) {
	if b.atOnce {
		return false
	}
	n := len(rejected)
	first, to := rejected[0], rejected[(n-1)/2].End
	if n == 1 && first.Start > 0 {
		to = first.Start
	}
	b.narrow, b.chosen = int64(to), true
	return (n > 1 || first.Start > 0) && !stalled
}

// Taken notes that what was read is delivered: the next read may be twice as long as this one, and as
// long as any, which is most bytes, soon after.
func (b *Bounds) Taken(most int64) {
	b.chosen, b.atOnce, b.unbound = false, false, false
	if b.narrow *= 2; b.narrow > most {
		b.narrow = 0
	}
}
