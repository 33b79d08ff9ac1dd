package tail

import (
	"io"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// trail is where reading of a generation stood lately, with the mark of each
// place. What is written between a copy and the truncation that follows it is
// read from the file and missing in the copy; the trail knows such a copy, which
// is shorter than what was read, for what it is. Guarded by Tailer.mu.
type trail []place

type place struct {
	offset int64
	mark   record.Mark
}

// trailLen is how many places are kept; one is added by a turn at most.
const trailLen = 64

// add stores an offset and its mark (the hash of the bytes before it); 0: the mark is not known,
// and nothing is stored. When the trail is full, every second of the older places is dropped.
func (t *trail) add(offset int64, mark record.Mark) {
	if n := len(*t); mark == 0 || n > 0 && (*t)[n-1].offset == offset {
		return
	} else if n == trailLen {
		for i := range n / 2 { // every second one will do for what is long past
			(*t)[i] = (*t)[2*i]
		}
		*t = (*t)[:n/2]
	}
	*t = append(*t, place{offset, mark})
}

// within returns the last place of the trail that an open file of this size reaches, and
// whether the file has the same content up to there.
func (t trail) within(f io.ReaderAt, size int64) (place, bool) {
	for _, p := range slices.Backward(t) {
		if p.offset <= size {
			m, err := fingerprint.MarkAt(f, p.offset)
			return p, err == nil && m == p.mark
		}
	}
	return place{}, false
}
