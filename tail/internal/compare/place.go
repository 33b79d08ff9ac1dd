package compare

import (
	"bytes"
	"io"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// lateEnd returns the place at an offset. late are the bytes before the offset position. False:
// they do not reach back that far, or the offset is after position.
func lateEnd(late []byte, position, offset int64) (Place, bool) {
	n := int64(len(late)) - (position - offset)
	if n < min(offset, record.MarkLen) || offset > position {
		return Place{}, false
	}
	return Place{offset, fingerprint.MarkOf(late[max(n-record.MarkLen, 0):n])}, true
}

// endsLate compares the end of f, which has size bytes, with the bytes of late before that offset.
// late are the bytes that were read of another file before the offset position.
func endsLate(f io.ReaderAt, size int64, late []byte, position int64) (Place, bool) {
	p, ok := lateEnd(late, position, size)
	if !ok {
		return Place{}, false
	}
	late = late[:int64(len(late))-(position-size)]
	b := make([]byte, len(late))
	_, err := fingerprint.ReadFull(f, b, size-int64(len(b)))
	return p, err == nil && bytes.Equal(b, late)
}

// Trail is where reading of a file stood lately, with the mark of each
// place. What is written between a copy and the truncation that follows it is
// read from the file and missing in the copy; the trail knows such a copy, which
// is shorter than what was read, for what it is.
type Trail []Place

// Place is an offset in a file, and the mark there.
type Place struct {
	Offset int64
	Mark   record.Mark
}

// trailLen is how many places are kept; one is added by a turn at most.
const trailLen = 64

// Add stores a place; nothing if the mark is not known.
func (t *Trail) Add(offset int64, mark record.Mark) {
	if n := len(*t); mark == 0 || n > 0 && (*t)[n-1].Offset == offset {
		return
	} else if n == trailLen {
		for i := range n / 2 { // every second one will do for what is long past
			(*t)[i] = (*t)[2*i]
		}
		*t = (*t)[:n/2]
	}
	*t = append(*t, Place{offset, mark})
}

// within returns the last place of the trail that an open file of this size reaches, and
// whether the file has the same content up to there.
func (t Trail) within(f io.ReaderAt, size int64) (Place, bool) {
	for _, p := range slices.Backward(t) {
		if p.Offset <= size {
			m, err := fingerprint.MarkAt(f, p.Offset)
			return p, err == nil && m == p.Mark
		}
	}
	return Place{}, false
}
