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

// known are the lines of a segment of which nothing was unreadable, up to a number.
func known(lines []line, until uint64) []line {
	if len(lines) == 0 {
		return nil
	}
	last := len(lines) - 1
	lines[last].until = until
	return lines[max(0, len(lines)-maxLines):]
}

// Vouch makes durable all that was told before, and returns a token by which a later
// run knows whether it has all of that.
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

// Vouches says whether all that was told before an earlier run got a token was there when
// the journal was opened: nothing was unreadable, then or at a start in between, and no
// entry is missing at the end. A journal that was begun anew vouches for nothing, nor
// does one for another, or one for a run that was long ago.
func (j *Journal) Vouches(token [24]byte) bool {
	for _, l := range j.lines {
		if l.id == record.BatchID(token[:16]) {
			return binary.LittleEndian.Uint64(token[16:]) <= l.until
		}
	}
	return false
}
