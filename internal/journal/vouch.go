package journal

import (
	"crypto/rand"
	"encoding/binary"

	"kusto-agent/internal/record"
)

// line is what one run told the journal, in the order of the numbers of its entries. A
// run begins a line of its own, so that no entry of a later one can seem to be one
// that was lost.
type line struct {
	id    record.BatchID
	until uint64 // number behind the last entry that a later run read; 0: it is that of this run
}

// maxLines is how many runs before this one are remembered.
const maxLines = 64

func newLine() (l line) {
	_, _ = rand.Read(l.id[:]) // never fails
	return l
}

// known returns lines (the runs that wrote to the journal, oldest first) for the next run, at most the
// last maxLines. It sets where the last of them ends: before the entry number until. The caller has
// read all of its segment without damage.
func known(lines []line, until uint64) []line {
	if len(lines) == 0 {
		return nil
	}
	last := len(lines) - 1
	lines[last].until = until
	return lines[max(0, len(lines)-maxLines):]
}

// Vouch makes all entries before the call durable, and returns a token. A later run learns with
// Vouches, from the token, whether it still knows all of them.
func (j *Journal) Vouch() (token [24]byte, err error) {
	o := &op{done: make(chan struct{})}
	if err := j.submit(o); err != nil {
		return token, err
	}
	id := j.lines[len(j.lines)-1].id
	copy(token[:], id[:])
	binary.LittleEndian.PutUint64(token[16:], o.number)
	return token, nil
}

// Vouches reports whether the journal, as it was opened, has all entries that were written before an
// earlier run got this token from Vouch: nothing was unreadable, then or at a start in between, and no
// entry is missing at the end. It is false for a token of another journal, of one that was begun
// anew since, and of a run that was long ago (more than maxLines runs).
func (j *Journal) Vouches(token [24]byte) bool {
	for _, l := range j.lines {
		if l.id == record.BatchID(token[:16]) {
			return binary.LittleEndian.Uint64(token[16:]) <= l.until
		}
	}
	return false
}
